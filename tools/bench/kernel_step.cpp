#include "tools/bench/kernel_step.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "tools/bench/harness.hpp"
#include <troupe/graph/builder/builder.hpp>

namespace troupe::bench {

KernelStep::KernelStep(std::vector<Tensor> feeds, int nodes,
                       const std::function<Output(const std::vector<Output>& inputs)>& make)
    : task_({.threads = 1, .gpus = {.count = 0}}), feeds_(std::move(feeds)), nodes_(nodes) {
  std::vector<Output> inputs, outputs;
  for (const Tensor& feed : feeds_) inputs.push_back(placeholder(graph_, feed.dtype(), feed.shape()));
  for (int i = 0; i < nodes; ++i) outputs.push_back(make(inputs));
  session_ = std::make_unique<Session>(task_, graph_, SessionOptions{.optimize = false});
  one_ = session_->callable(inputs, {outputs[0]});
  all_ = session_->callable(inputs, {}, outputs);
}

double KernelStep::seconds_per_node(double seconds) const {
  return seconds_per_call(seconds, [this] { all_(feeds_); }) / nodes_;
}

Tensor random_tensor(const Shape& shape, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  Tensor out(DType::f32, shape);
  for (float& x : out.mutable_values<float>())
    x = static_cast<float>(static_cast<double>(engine() >> 11) * 0x1p-52 - 1);
  return out;
}

void check_close(const Tensor& result, const float* expected, double tolerance) {
  double largest = 0, difference = 0;
  const auto values = result.values<float>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
    const double d = std::abs(static_cast<double>(values[i]) - static_cast<double>(expected[i]));
    if (!(d <= difference)) difference = d;  // also if it is NaN
  }
  if (!(difference <= tolerance * largest))
    fail(Code::internal, "the results of troupe and its peer differ by {}; the largest element is {}", difference,
         largest);
}

}  // namespace troupe::bench
