// troupe-model run, in batches: here, and on workers that are processes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <map>
#include <random>

#include "tests/apps/process.hpp"
#include "tests/paths.hpp"
#include "tests/patience.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/model/saved_model.hpp>
#include <troupe/actors/model/values.hpp>
#include <troupe/graph/builder/builder.hpp>

namespace troupe {
namespace {

using ::testing::HasSubstr;
using testing::Process;

struct Ended {
  int code;
  std::string out, err;
};

Tensor drawn_values(const Shape& shape) {
  std::mt19937 random(1);
  Tensor out(DType::f32, shape);
  for (float& x : out.mutable_values<float>()) x = static_cast<float>(random() >> 8) / (1 << 23) - 1;
  return out;
}

// Directories "model", of y = tanh(x w) with x f32[?,2] and "one", which takes one example at a time.
class ModelBatches : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const auto& [name, rows] : {std::pair("model", kUnknown), std::pair("one", std::int64_t{1})}) {
      auto graph = std::make_shared<Graph>();
      const Output x = placeholder(*graph, DType::f32, Shape{rows, 2}, "x");
      const Output y = tanh(matmul(x, constant(*graph, drawn_values({2, 3}))), "y");
      SavedModel model{.graph = graph};
      model.signatures["predict"] = {{{"x", {"x", DType::f32, x.shape()}}}, {{"y", {"y", DType::f32, y.shape()}}}};
      save_model(posix_file_system(), path(name), model);
    }
  }
  std::string path(const std::string& name) const { return directory_.file(name); }
  std::vector<std::string> command(const std::string& model, const std::string& inputs,
                                   const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {
        testing::program("troupe-model"), "run", path(model), "--inputs", path(inputs), "--outputs", path("out.npz")};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static Ended end(Process& process) {
    const int code = process.wait();
    return {code, process.out, process.err};
  }
  Tensor outputs() const { return load_values(posix_file_system(), path("out.npz")).at("y"); }

  // Starts a worker for each task of a cluster file.
  void start_workers(int count) {
    std::string addresses;
    for (const int port : testing::free_ports(count))
      addresses += fmt::format("{}\"127.0.0.1:{}\"", addresses.empty() ? "" : ",", port);
    file_ = directory_.write("nodes.json", fmt::format(R"({{"name":"nodes","token":"{}","worker":[{}]}})",
                                                       testing::kStrongToken, addresses));
    for (int i = 0; i < count; ++i) start_worker(i);
    for (auto& [i, worker] : workers_) worker.wait_for("is ready at");
  }
  void start_worker(int i) {
    workers_.try_emplace(i, std::vector<std::string>{testing::program("troupe-node"), "--job", "worker", "--task",
                                                     std::to_string(i), "--cluster", file_, "--threads", "1"});
  }
  void kill_worker(int i) {
    workers_.at(i).signal(SIGKILL);
    EXPECT_EQ(workers_.at(i).wait(), -SIGKILL);
    workers_.erase(i);
  }
  void TearDown() override {
    for (auto& [i, worker] : workers_) worker.signal(SIGTERM);
    for (auto& [i, worker] : workers_) EXPECT_EQ(worker.wait(), 143) << worker.err;
  }

  testing::TemporaryDirectory directory_;
  std::string file_;
  std::map<int, Process> workers_;
};

TEST_F(ModelBatches, HaveTheResultsOfOneRun) {
  const Tensor x = drawn_values({7, 2});
  save_values(posix_file_system(), path("x.npz"), {{"x", x}, {"label", drawn_values({7})}});
  save_values(posix_file_system(), path("x.safetensors"), {{"x", x}});
  std::string csv = "label,x_0,x_1\n";
  for (int i = 0; i < 7; ++i) csv += fmt::format("{},{},{}\n", i, x.data<float>()[2 * i], x.data<float>()[2 * i + 1]);
  directory_.write("x.csv", csv);
  Process once(command("model", "x.safetensors"));
  ASSERT_EQ(once.wait(), 0) << once.err;
  const Tensor expected = outputs();
  for (const auto& [model, inputs] : {std::pair("model", "x.npz"), std::pair("model", "x.safetensors"),
                                      std::pair("model", "x.csv"), std::pair("one", "x.npz")}) {
    // "one" takes a single example, as --batch says, too.
    Process process(command(model, inputs, {"--batch", model == std::string("one") ? "1" : "3"}));
    const Ended ended = end(process);
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_THAT(ended.out, HasSubstr("7 examples in ")) << inputs;
    const Tensor found = outputs();
    ASSERT_EQ(found.shape(), expected.shape()) << inputs;
    for (std::int64_t i = 0; i < found.num_elements(); ++i)
      EXPECT_NEAR(found.data<float>()[i], expected.data<float>()[i], 1e-6) << inputs;
  }
}

TEST_F(ModelBatches, AreWrittenInAnyFormatOfDataSets) {
  directory_.write("x.jsonl", "{\"x\": [0, 0]}\n{\"x\": [0, 0]}\n{\"x\": [0, 0]}\n");
  const auto run = [&](const std::string& outputs) {
    Process process({testing::program("troupe-model"), "run", path("model"), "--inputs", path("x.jsonl"), "--outputs",
                     path(outputs), "--batch", "2"});
    return end(process);
  };
  const Ended ended = run("y.csv");
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("y: f32[3,3]\n"));
  EXPECT_EQ(testing::content_of(path("y.csv")), "y_0,y_1,y_2\n0,0,0\n0,0,0\n0,0,0\n");
  EXPECT_EQ(run("y.safetensors").code, 0);
  EXPECT_TRUE(bitwise_equal(load_values(posix_file_system(), path("y.safetensors")).at("y"),
                            Tensor::zeros(DType::f32, {3, 3})));
  EXPECT_THAT(run("y").err, HasSubstr("the ending says no format"));
}

TEST_F(ModelBatches, AKilledWorkerLeavesNoTrace) {
  start_workers(2);
  for (std::int64_t examples = 16'000;; examples *= 4) {
    ASSERT_LE(examples, 2'000'000) << "it was never killed in the middle";
    save_values(posix_file_system(), path("x.npz"), {{"x", drawn_values({examples, 2})}});
    Process alone(command("model", "x.npz", {"--batch", "4"}));
    ASSERT_EQ(alone.wait(), 0) << alone.err;
    const Tensor expected = outputs();
    Process client(command("model", "x.npz", {"--batch", "4", "--cluster", file_, "--json"}));
    client.wait_for("\"devices\":2");
    kill_worker(1);
    const Ended ended = end(client);
    ASSERT_EQ(ended.code, 0) << ended.err;
    EXPECT_TRUE(bitwise_equal(outputs(), expected));
    start_worker(1);
    workers_.at(1).wait_for("is ready at");
    if (ended.err.find("/job:worker/task:1/device:CPU:0 is lost") != ended.err.npos) return;
  }
}

TEST_F(ModelBatches, GoOnWithoutAWorkerThatIsNotThere) {
  start_workers(2);
  kill_worker(0);
  save_values(posix_file_system(), path("x.npz"), {{"x", drawn_values({10, 2})}});
  // The other may not be met in time.
  EXPECT_TRUE(testing::holds_with_more_time(std::chrono::seconds(1), [&](std::chrono::milliseconds limit) {
    Process client(testing::with_limit(command("model", "x.npz", {"--cluster", file_}), "--join-timeout", limit));
    const Ended ended = end(client);
    EXPECT_THAT(ended.err, HasSubstr("no link came up to "));
    if (ended.code != 0) return false;
    EXPECT_THAT(ended.err, HasSubstr("goes on without some workers: no link came up to /job:worker/task:0"));
    EXPECT_EQ(outputs().shape(), (Shape{10, 3}));
    return true;
  }));
}

TEST_F(ModelBatches, AClusterWithoutWorkersIsRefused) {
  const std::string file =
      directory_.write("ps.json", fmt::format(R"({{"name":"c","token":"{}","ps":["127.0.0.1:{}"]}})",
                                              testing::kStrongToken, testing::free_ports(1)[0]));
  save_values(posix_file_system(), path("x.npz"), {{"x", drawn_values({4, 2})}});
  Process process(command("model", "x.npz", {"--cluster", file}));
  const Ended ended = end(process);
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err, HasSubstr("ps.json' lists no task of job 'worker': its tasks run troupe-node"));
}

}  // namespace
}  // namespace troupe
