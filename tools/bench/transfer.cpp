// Tensors sent between two processes over the loopback address, compared with plain TCP.
#include <future>

#include "tools/bench/bounce.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/peers/shared_memory_peer.hpp"
#include "tools/bench/peers/tcp_peer.hpp"
#include "tools/bench/remote_task.hpp"
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/builder.hpp>

namespace troupe::bench {
namespace {

constexpr double kGiga = 1e9;

// A client feeds the same tensor repeatedly to a task in another process, which counts its elements; the client fetches
// the count. So a step ends when the whole tensor has arrived.
class Transfer {
 public:
  explicit Transfer(std::size_t bytes) : bytes_(bytes) {
    const Output x = placeholder(graph_, DType::f32, Shape{kUnknown}, "x");
    const auto remote = graph_.on_device(RemoteTask::kName);
    const Output count = element_count(x);
    const Output last = slice(x, {elements() - 1}, {1});
    session_ = std::make_unique<Session>(remote_.client(), graph_);
    callable_ = session_->callable({x}, {count});
    tensor_ = Tensor::zeros(DType::f32, Shape{elements()});
    tensor_.mutable_values<float>().back() = 42;
    if (session_->run({{x, tensor_}}, last).item<float>() != 42) fail(Code::internal, "the last element is wrong");
  }

  void run_one() const { check(callable_({tensor_})[0]); }
  // Runs `steps` steps, all in flight.
  void run(int steps) const {
    std::vector<std::future<StepResult>> results;
    for (int i = 0; i < steps; ++i) {
      auto promise = std::make_shared<std::promise<StepResult>>();
      results.push_back(promise->get_future());
      callable_.start({tensor_}, {}, [promise](StepResult result) { promise->set_value(std::move(result)); });
    }
    for (auto& future : results) {
      const StepResult result = future.get();
      if (result.error) throw result.error;
      check(result.fetches[0]);
    }
  }

 private:
  std::int64_t elements() const { return static_cast<std::int64_t>(bytes_ / sizeof(float)); }
  void check(const Tensor& count) const {
    if (count.item<std::int64_t>() != elements()) fail(Code::internal, "elements are missing");
  }

  const std::size_t bytes_;
  RemoteTask remote_;
  Graph graph_;
  Tensor tensor_;
  std::unique_ptr<Session> session_;
  Callable callable_;
};

// Tensors in flight: enough that waiting for replies does not matter, few enough to fit in memory.
constexpr int kInFlight = 4;

// GB/s of `work`, which moves `bytes`.
double throughput(double seconds, std::size_t bytes, const std::function<void()>& work) {
  return static_cast<double>(bytes) / seconds_per_call(seconds, work) / kGiga;
}

Case transfer_case(std::size_t mebibytes, const std::string& suffix, const std::string& peer,
                   std::optional<double> target, const std::function<Peer(std::size_t bytes, double slice)>& measured) {
  return {.bench = "transfer",
          .name = fmt::format("{}MiB{}", mebibytes, suffix),
          .unit = "GB/s",
          .more_is_better = true,
          .measures = fmt::format(
              "steps, {} in flight, that feed a tensor to a task in another process and fetch its element count",
              kInFlight),
          .peer = peer,
          .ratio_target = target,
          .prepare = [=](const Settings& settings) -> Contest {
            const std::size_t bytes = settings.quick ? 1 << 20 : mebibytes << 20;
            auto transfer = std::make_shared<Transfer>(bytes);
            const double slice = settings.slice_seconds();
            return {.troupe = [=] { return throughput(slice, kInFlight * bytes, [&] { transfer->run(kInFlight); }); },
                    .peers = {measured(bytes, slice)}};
          }};
}

// A peer that sends several messages in a row.
template <class Sender>
Peer sender(const std::string& name, std::size_t bytes, double slice) {
  auto peer = std::make_shared<Sender>();
  return {name, [=] { return throughput(slice, kInFlight * bytes, [&] { peer->send(bytes, kInFlight); }); }};
}

constexpr int kInTurn = 100;

// Compared with plain TCP, in microseconds.
Contest round_trips(const Settings& settings, const std::function<double(double slice)>& troupe) {
  auto tcp = std::make_shared<TcpPeer>();
  const double slice = settings.slice_seconds();
  return {.troupe = [=] { return 1e6 * troupe(slice); },
          .peers = {{"raw TCP",
                     [=] { return 1e6 / kInTurn * seconds_per_call(slice, [&] { tcp->ping_pong(4, kInTurn); }); }}}};
}

Contest bounces(const Settings& settings) {
  auto bounce = std::make_shared<Bounce>();
  return round_trips(settings,
                     [=](double slice) { return seconds_per_call(slice, [&] { bounce->run(kInTurn); }) / kInTurn; });
}

Contest steps(const Settings& settings) {
  auto transfer = std::make_shared<Transfer>(sizeof(float));
  return round_trips(settings, [=](double slice) { return seconds_per_call(slice, [&] { transfer->run_one(); }); });
}

}  // namespace

void add_transfer_cases(std::vector<Case>& cases) {
  const std::string peer = "4 bytes over plain TCP, there and back between a thread of each process";
  cases.push_back({.bench = "transfer",
                   .name = "4B",
                   .unit = "us",
                   .measures = "a tensor of 4 bytes from an actor through peer, wire and rendezvous to an actor of "
                               "another process, and back",
                   .peer = peer,
                   .ratio_target = 0.5,
                   .prepare = bounces});
  cases.push_back(
      {.bench = "transfer",
       .name = "4B-step",
       .unit = "us",
       .measures =
           "a step that feeds 4 bytes to a task in another process, which runs a kernel, and fetches the result",
       .peer = peer,
       .prepare = steps});
  const std::string in_a_row =
      fmt::format("{} messages in a row, one thread in each process; the last is answered", kInFlight);
  for (const std::size_t mebibytes : {1, 4, 16, 64, 256})
    cases.push_back(
        transfer_case(mebibytes, "", in_a_row, mebibytes == 1 ? 0.8 : 0.85,
                      [](std::size_t bytes, double slice) { return sender<TcpPeer>("raw TCP", bytes, slice); }));
  for (const std::size_t mebibytes : {1, 16, 64})  // to see whether shared memory would pay off
    cases.push_back(
        transfer_case(mebibytes, "-shared-memory", in_a_row, std::nullopt, [](std::size_t bytes, double slice) {
          return sender<SharedMemoryPeer>("a ring in shared memory", bytes, slice);
        }));
}

}  // namespace troupe::bench
