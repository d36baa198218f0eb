// Loops: the cost of an iteration.
#include "tools/bench/cases.hpp"
#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/builder.hpp>

namespace troupe::bench {
namespace {

// A fed increment is added to a scalar up to a fed bound: nothing can be folded or unrolled.
class EmptyLoop {
 public:
  explicit EmptyLoop(std::int64_t iterations) : iterations_(iterations), task_({.threads = 1, .gpus = {.count = 0}}) {
    const Output increment = placeholder(graph_, DType::f32, Shape{}), bound = placeholder(graph_, DType::f32, Shape{});
    const Outputs last =
        while_loop([&](const Outputs& v) { return less(v[0], bound); },
                   [&](const Outputs& v) { return Outputs{v[0] + increment}; }, {constant(graph_, 0.0f)});
    session_ = std::make_unique<Session>(task_, graph_);
    callable_ = session_->callable({increment, bound}, {last});
  }
  double ns_per_iteration() const {
    const auto bound = static_cast<float>(iterations_);  // exact up to 2^24
    const auto begin = std::chrono::steady_clock::now();
    const Tensor last = callable_({Tensor::scalar(1.0f), Tensor::scalar(bound)})[0];
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    if (last.item<float>() != bound) fail(Code::internal, "the loop ended with {}", last.to_string());
    return took.count() / static_cast<double>(iterations_);
  }

 private:
  const std::int64_t iterations_;
  Graph graph_;
  Task task_;
  std::unique_ptr<Session> session_;
  Callable callable_;
};

Contest empty_loop(const Settings& settings) {
  auto loop = std::make_shared<EmptyLoop>(settings.quick ? 1'000 : 1'000'000);
  return {.troupe = [loop] { return loop->ns_per_iteration(); }, .peers = {}};
}

}  // namespace

void add_loop_cases(std::vector<Case>& cases) {
  cases.push_back({.bench = "loop",
                   .name = "empty",
                   .unit = "ns/op",
                   .measures =
                       "a While of 1,000,000 iterations that adds a fed increment to a scalar up to a fed bound; "
                       "per iteration",
                   .peer = "",
                   .value_target = 120,
                   .prepare = empty_loop});
}

}  // namespace troupe::bench
