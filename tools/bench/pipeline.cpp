#include "tools/bench/pipeline.hpp"

#include <chrono>
#include <future>

#include <troupe/graph/builder/builder.hpp>

namespace troupe::bench {
namespace {

std::future<StepResult> start(const Callable& callable, std::vector<Tensor> feeds) {
  auto promise = std::make_shared<std::promise<StepResult>>();
  auto future = promise->get_future();
  callable.start(std::move(feeds), {}, [promise](StepResult result) { promise->set_value(std::move(result)); });
  return future;
}

void check(const StepResult& result, bool fed, std::int64_t step) {
  if (result.error) throw result.error;
  if (fed && result.fetches.at(0).item<float>() != -static_cast<float>(step % 1024))
    fail(Code::internal, "step {} fetched {}", step, result.fetches[0].to_string());
}

}  // namespace

Pipelined run_pipelined(const Callable& callable, bool fed, double seconds, std::size_t in_flight) {
  std::vector<std::future<StepResult>> ring(in_flight);
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  std::int64_t started = 0, ended = 0;
  const auto await_oldest = [&] {
    check(ring[static_cast<std::size_t>(ended) % in_flight].get(), fed, ended);
    ++ended;
  };
  do {
    for (std::size_t i = 0; i < in_flight; ++i) {
      if (started - ended == static_cast<std::int64_t>(in_flight)) await_oldest();
      std::vector<Tensor> feeds;
      if (fed) feeds.push_back(Tensor::scalar<float>(static_cast<float>(started % 1024)));
      ring[static_cast<std::size_t>(started) % in_flight] = start(callable, std::move(feeds));
      ++started;
    }
  } while (elapsed() < seconds);
  while (ended < started) await_oldest();
  return {static_cast<std::uint64_t>(ended), elapsed()};
}

double pipelined_per_second(const Callable& callable, bool fed, double seconds) {
  const Pipelined run = run_pipelined(callable, fed, seconds, kManyInFlight);
  return static_cast<double>(run.steps) / run.seconds;
}

OneNode::OneNode(TaskOptions options) : task_(std::move(options)) {
  const Output x = placeholder(graph_, DType::f32, Shape{}, "x");
  const Output y = -x;
  session_ = std::make_unique<Session>(task_, graph_);
  callable_ = session_->callable({x}, {y});
}

void OneNode::run_one() const {
  const auto result = callable_({Tensor::scalar(1.0f)});
  if (result[0].item<float>() != -1.0f) fail(Code::internal, "expected -1, got {}", result[0].to_string());
}

}  // namespace troupe::bench
