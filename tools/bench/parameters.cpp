// Gradients to and parameters from a parameter shard in another process, compared with plain TCP.
#include <caf/send.hpp>
#include <chrono>
#include <future>

#include "tools/bench/cases.hpp"
#include "tools/bench/peers/tcp_peer.hpp"
#include "tools/bench/remote_shard.hpp"
#include <troupe/actors/session/session.hpp>
#include <troupe/actors/wire/cork.hpp>
#include <troupe/graph/builder/core.hpp>

namespace troupe::bench {
namespace {

constexpr int kInFlight = 4;  // enough that waiting for replies does not matter

std::int64_t elements_of(std::size_t bytes) { return static_cast<std::int64_t>(bytes / sizeof(float)); }

// Rate per second of `work` over at least `seconds`, including `end`, which waits for all of it.
double per_second_to_the_end(double seconds, const std::function<void()>& work, const std::function<void()>& end) {
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  double done = 0;
  for (; done == 0 || elapsed() < seconds; ++done) work();
  end();
  return done / elapsed();
}

// Steps of a session that push a gradient for each variable: a separate batch, applied on arrival and acknowledged.
class Pushes {
 public:
  explicit Pushes(std::size_t bytes, std::uint32_t variables = 1) : shard_(elements_of(bytes), variables) {
    session_ =
        std::make_unique<Session>(shard_.task(), *shard_.graph().graph, SessionOptions{.shards = {shard_.shard()}});
    callable_ = session_->callable({shard_.output("gradient")}, {}, {shard_.output("train")});
    gradient_ = Tensor::zeros(DType::f32, Shape{elements_of(bytes)});
  }
  double per_second(double seconds) {
    return per_second_to_the_end(
        seconds,
        [&] {
          if (batch_ >= kInFlight) shard_.acknowledgements().await(batch_ - kInFlight + 1);
          callable_.start({gradient_}, {.training = {.step = batch_++}}, [](const StepResult&) {});
        },
        [&] { shard_.acknowledgements().await(batch_); });
  }

 private:
  RemoteShard shard_;
  std::unique_ptr<Session> session_;
  Callable callable_;
  Tensor gradient_;
  std::uint64_t batch_ = 0;
};

// Steps of a session that pull the parameters and fetch them.
class Pulls {
 public:
  explicit Pulls(std::size_t bytes, std::uint32_t variables = 1) : shard_(elements_of(bytes), variables) {
    Outputs values;
    for (std::uint32_t v = 0; v < variables; ++v) values.push_back(shard_.output(fmt::format("w{}/read", v)));
    session_ =
        std::make_unique<Session>(shard_.task(), *shard_.graph().graph, SessionOptions{.shards = {shard_.shard()}});
    callable_ = session_->callable({}, values);
  }
  double per_second(double seconds) {
    std::deque<std::future<std::vector<Tensor>>> waiting;
    const double each = seconds_per_call(seconds, [&] {
      while (waiting.size() < kInFlight) waiting.push_back(callable_.async({}));
      waiting.front().get();
      waiting.pop_front();
    });
    for (auto& future : waiting) future.get();
    return 1 / each;
  }

 private:
  RemoteShard shard_;
  std::unique_ptr<Session> session_;
  Callable callable_;
};

// Pushes of one element, each a separate batch: applied once and acknowledged by a separate frame.
class SmallPushes {
 public:
  double per_second(double seconds) {
    constexpr int kAtOnce = 256, kWindow = 8 * kAtOnce;
    return kAtOnce * per_second_to_the_end(
                         seconds,
                         [&] {
                           if (batch_ >= kWindow) shard_.acknowledgements().await(batch_ - kWindow + kAtOnce);
                           const wire::Cork cork;
                           for (int i = 0; i < kAtOnce; ++i)
                             caf::anon_send(shard_.peer(),
                                            Outbound{Push{.step = batch_++, .gradient = gradient_, .indices = {}}});
                         },
                         [&] { shard_.acknowledgements().await(batch_); });
  }

 private:
  RemoteShard shard_{1};
  const Tensor gradient_ = Tensor::vector<float>({1});
  std::uint64_t batch_ = 0;
};

template <class Steps>
Case bulk_case(const std::string& what, std::size_t mebibytes, double target, std::string measures, bool outward) {
  return {.bench = "ps",
          .name = fmt::format("{}-{}MiB", what, mebibytes),
          .unit = "GB/s",
          .more_is_better = true,
          .measures = std::move(measures),
          .peer = fmt::format("{} messages in a row over plain TCP, one thread in each process", kInFlight),
          .ratio_target = target,
          .prepare = [=](const Settings& settings) -> Contest {
            const std::size_t bytes = settings.quick ? 1 << 20 : mebibytes << 20;
            auto steps = std::make_shared<Steps>(bytes);
            auto tcp = std::make_shared<TcpPeer>();
            const double slice = settings.slice_seconds(), giga = static_cast<double>(bytes) / 1e9;
            return {.troupe = [=] { return giga * steps->per_second(slice); },
                    .peers = {{"raw TCP", [=] {
                                 return giga * kInFlight / seconds_per_call(slice, [&] {
                                          outward ? tcp->send(bytes, kInFlight) : tcp->receive(bytes, kInFlight);
                                        });
                               }}}};
          }};
}

// Many small variables, compared with a large one of the same total size: packs (graph/passes/shard_map.hpp).
template <class Steps>
Case many_case(const std::string& what) {
  static constexpr std::size_t kBytes = 1 << 10;
  static constexpr std::uint32_t kVariables = 100;
  return {.bench = "ps",
          .name = fmt::format("many-{}", what),
          .unit = "steps/s",
          .more_is_better = true,
          .measures = fmt::format(
              "steps that {} {} variables of 1 KiB, all on one shard in another process; up to {} in flight", what,
              kVariables, kInFlight),
          .peer = "one variable of the same total size",
          .ratio_target = 0.5,
          .prepare = [](const Settings& settings) -> Contest {
            auto many = std::make_shared<Steps>(kBytes, kVariables);
            auto one = std::make_shared<Steps>(kBytes * kVariables);
            const double slice = settings.slice_seconds();
            return {.troupe = [=] { return many->per_second(slice); },
                    .peers = {{"one variable", [=] { return one->per_second(slice); }}}};
          }};
}

}  // namespace

void add_parameter_cases(std::vector<Case>& cases) {
  for (const std::size_t size : {1, 4, 16})
    cases.push_back(bulk_case<Pushes>("push", size, size == 1 ? 0.6 : 0.75,
                                      "steps that push a gradient to a shard in another process, which applies SGD and "
                                      "acknowledges; up to 4 in flight",
                                      true));
  for (const std::size_t size : {1, 4, 16})
    cases.push_back(bulk_case<Pulls>(
        "pull", size, size == 1 ? 0.7 : 0.8,
        fmt::format("steps, {} in flight, that pull the parameters of a shard in another process", kInFlight), false));
  cases.push_back(many_case<Pushes>("push"));
  cases.push_back(many_case<Pulls>("pull"));
  cases.push_back(
      {.bench = "ps",
       .name = "small",
       .unit = "/s",
       .more_is_better = true,
       .measures =
           "pushes of 4 bytes to a shard in another process, each with its own number, applied once and acknowledged; "
           "up to 2,048 in flight",
       .value_target = 200000,
       .prepare = [](const Settings& settings) -> Contest {
         auto pushes = std::make_shared<SmallPushes>();
         return {.troupe = [=] { return pushes->per_second(settings.slice_seconds()); }, .peers = {}};
       }});
}

}  // namespace troupe::bench
