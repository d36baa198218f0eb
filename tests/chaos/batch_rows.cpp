// Predictions of a source of examples on a cluster whose workers are killed.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>

#include "tests/chaos/row.hpp"
#include <troupe/actors/model/saved_model.hpp>
#include <troupe/actors/model/values.hpp>
#include <troupe/graph/builder/builder.hpp>

namespace troupe::chaos {
namespace {

namespace fs = std::filesystem;

constexpr int kBatchWorkers = 3;
constexpr double kBatchPatience = 60;  // seconds for whatever a program is to say
constexpr std::int64_t kBatchExamples = 64'000;

// A program and what it has said.
class Talker {
 public:
  explicit Talker(Arguments command) : child_(std::move(command)) {}

  // Reads until it has said this, has ended, or is out of time. True: it has said it.
  bool says(const std::string& text, double seconds = kBatchPatience) {
    const double deadline = unix_now() + seconds;
    while (!said(text) && (child_.out_fd() >= 0 || child_.err_fd() >= 0)) {
      const double left = deadline - unix_now();
      if (left <= 0) break;
      std::array<pollfd, 2> both{{{child_.out_fd(), POLLIN, 0}, {child_.err_fd(), POLLIN, 0}}};
      if (::poll(both.data(), both.size(), static_cast<int>(left * 1000) + 1) <= 0) continue;
      if (both[0].revents != 0) child_.read_out(out_);
      if (both[1].revents != 0) child_.read_err(err_);
    }
    return said(text);
  }
  bool said(const std::string& text) const {
    return out_.find(text) != std::string::npos || err_.find(text) != std::string::npos;
  }
  // Reads for so long.
  void listen(double seconds) { says("\n\n", seconds); }
  // Its exit code once it has closed its outputs; none if that takes too long.
  std::optional<int> end() {
    says("\n\n");
    return child_.out_fd() < 0 && child_.err_fd() < 0 ? std::optional(child_.wait()) : std::nullopt;
  }
  void kill() {
    child_.signal(SIGKILL);
    child_.wait();
  }
  const std::string& out() const { return out_; }
  const std::string& err() const { return err_; }

 private:
  testing::Child child_;
  std::string out_, err_;
};

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Tensor drawn_examples(const Shape& shape, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Tensor out(DType::f32, shape);
  for (float& x : out.mutable_values<float>()) x = static_cast<float>(random() >> 40) / (1 << 23) - 1;
  return out;
}

// A model y = tanh(x w), examples, and a cluster of workers that compute what a client asks.
class BatchCluster {
 public:
  BatchCluster(Workshop& workshop, std::uint64_t seed) : workshop_(workshop) {
    auto graph = std::make_shared<Graph>();
    const Output x = placeholder(*graph, DType::f32, Shape{kUnknown, 2}, "x");
    const Output y = tanh(matmul(x, constant(*graph, drawn_examples({2, 3}, 1))), "y");
    SavedModel model{.graph = graph};
    model.signatures["predict"] = {{{"x", {"x", DType::f32, x.shape()}}}, {{"y", {"y", DType::f32, y.shape()}}}};
    save_model(posix_file_system(), path("model"), model);
    save_values(posix_file_system(), path("x.npz"), {{"x", drawn_examples({kBatchExamples, 2}, seed)}});
    std::string addresses;
    for (const int port : testing::free_ports(kBatchWorkers))
      addresses += fmt::format("{}\"127.0.0.1:{}\"", addresses.empty() ? "" : ",", port);
    directory_.write("cluster.json", fmt::format(R"({{"name":"batches","token":"{}","worker":[{}]}})",
                                                 testing::kStrongToken, addresses));
    for (int i = 0; i < kBatchWorkers; ++i) start(i);
  }

  void start(int worker) {
    workers_[worker] = std::make_unique<Talker>(Arguments{workshop_.program("troupe-node"), "--job", "worker", "--task",
                                                          std::to_string(worker), "--cluster", path("cluster.json"),
                                                          "--threads", "1"});
  }
  void kill(int worker) { workers_.at(worker)->kill(); }
  // What a worker said that is not ready; "" if all are.
  std::string not_ready() {
    for (const auto& [i, worker] : workers_)
      if (!worker->says("is ready at")) return fmt::format("worker/{} is not ready: {}", i, worker->err());
    return "";
  }
  // Writes the results to a file of this name; "--cluster" takes the workers.
  std::unique_ptr<Talker> client(const std::string& outputs, bool on_cluster) {
    Arguments command{workshop_.program("troupe-model"),
                      "run",
                      path("model"),
                      "--inputs",
                      path("x.npz"),
                      "--outputs",
                      path(outputs),
                      "--batch",
                      "4",
                      "--json"};
    if (on_cluster) command.insert(command.end(), {"--cluster", path("cluster.json")});
    return std::make_unique<Talker>(std::move(command));
  }
  std::string path(const std::string& name) const { return directory_.file(name); }
  void keep_logs(const Talker& client, const std::string& folder) const {
    fs::create_directories(folder);
    std::ofstream(folder + "/client") << client.out() << client.err();
    for (const auto& [i, worker] : workers_)
      std::ofstream(fmt::format("{}/worker-{}", folder, i)) << worker->out() << worker->err();
  }

 private:
  Workshop& workshop_;
  testing::TemporaryDirectory directory_;
  std::map<int, std::unique_ptr<Talker>> workers_;
};

// All but one of the workers, at moments of the run; half of those come again.
Outcome kill_batches(Workshop& workshop, std::uint64_t seed) {
  Dice dice(seed);
  Outcome out;
  const auto failed = [&](const std::string& why) {
    out.problem = why;
    return out;
  };
  BatchCluster cluster(workshop, seed);
  const auto alone = cluster.client("alone.npz", false);
  if (alone->end() != 0) return failed("alone, the client failed: " + alone->err());
  if (const std::string why = cluster.not_ready(); !why.empty()) return failed(why);
  const auto undisturbed = cluster.client("undisturbed.npz", true);
  if (!undisturbed->says("\"devices\":3")) return failed("the client did not use all workers: " + undisturbed->err());
  const double began = unix_now();
  if (undisturbed->end() != 0) return failed("undisturbed, the client failed: " + undisturbed->err());
  const double length = unix_now() - began;

  const auto client = cluster.client("killed.npz", true);
  if (!client->says("\"devices\":3")) return failed("the client did not use all workers: " + client->err());
  const int spared = static_cast<int>(dice.below(kBatchWorkers));
  for (int i = 1; i < kBatchWorkers; ++i) {
    const int victim = (spared + i) % kBatchWorkers;
    const double pause = dice.between(0.02, 0.4) * length;
    client->listen(pause);
    cluster.kill(victim);
    out.schedule += fmt::format("{}kill worker/{} after {:.3f} s", i > 1 ? ", " : "", victim, pause);
    if (dice.below(2) == 0) continue;
    cluster.start(victim);
    out.schedule += ", start it";
  }
  const std::optional<int> code = client->end();
  double lost = 0;
  for (int i = 0; i < kBatchWorkers; ++i)
    lost += client->said(fmt::format("/job:worker/task:{}/device:CPU:0 is lost", i)) ? 1 : 0;
  out.counts = {{"examples", static_cast<double>(kBatchExamples)}, {"workers lost", lost}};
  const std::string expected = bytes_of(cluster.path("alone.npz"));
  if (!code)
    out.problem = "the client did not end";
  else if (*code != 0)
    out.problem = fmt::format("the client ended with {}: {}", *code, client->err());
  else if (expected.empty() || bytes_of(cluster.path("undisturbed.npz")) != expected)
    out.problem = "on a cluster that nobody disturbs, the results are others than alone";
  else if (bytes_of(cluster.path("killed.npz")) != expected)
    out.problem = "the results are others than without the fault";
  else if (lost == 0)
    out.again = "the run was over before a worker was killed";
  if (!out.problem.empty() && workshop.folder_for_logs) cluster.keep_logs(*client, workshop.folder_for_logs());
  return out;
}

}  // namespace

std::vector<Row> batch_rows() {
  return {{.name = "kill-batches",
           .fault = "kill -9 of 2 of 3 workers that compute batches for a client",
           .must = "the file of results has the bytes that it has without",
           .short_runs = 1,
           .long_runs = 20,
           .at_most = {},
           .at_least = {{"workers lost", 1}},
           .run = kill_batches}};
}

}  // namespace troupe::chaos
