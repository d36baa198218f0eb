#include "tools/bench/gpu_step.hpp"

#include <deque>
#include <future>

#include "tools/bench/harness.hpp"
#include <troupe/graph/builder/builder.hpp>

namespace troupe::bench {
namespace {

constexpr const char* kGpu = "GPU:0";

// Runs on the GPU or not at all.
SessionOptions session_options(bool optimize) { return {.optimize = optimize, .soft_placement = false}; }

Output initial(Graph& graph, const GpuInput& input) {
  if (is_integer(input.dtype))
    return cast(random_uniform(graph, input.shape, 0, static_cast<double>(input.below)), input.dtype);
  return cast(random_uniform(graph, input.shape, -1, 1), input.dtype);
}

}  // namespace

GpuStep::GpuStep(const std::vector<GpuInput>& inputs, int times, const Make& make, Options options)
    : task_({.gpus = {.count = 1, .tf32 = options.tf32}}), times_(times), in_flight_(options.in_flight) {
  std::vector<Output> values, made, fed;
  for (const GpuInput& input : inputs)
    values.push_back(
        variable(graph_, {.name = "input", .initial_value = initial(graph_, input), .device = kGpu}).read());
  if (options.fed.valid()) {
    feeds_ = {options.fed};
    fed = {placeholder(graph_, options.fed.dtype(), options.fed.shape())};
  }
  {
    const auto there = graph_.on_device(kGpu);
    if (!fed.empty()) made.push_back(add_op("Identity", fed));
    for (int i = 0; i < times; ++i)
      for (const Output& output : make(values)) made.push_back(output);
  }
  const Output initialize = initializer(graph_);
  session_ = std::make_unique<Session>(task_, graph_, session_options(options.optimize));
  session_->run_targets({initialize});
  all_ = options.fetch ? session_->callable(fed, made) : session_->callable(fed, {}, made);
}

double GpuStep::seconds_per_node(double seconds) const {
  if (in_flight_ == 1) return seconds_per_call(seconds, [this] { all_(feeds_); }) / times_;
  std::deque<std::future<std::vector<Tensor>>> running;
  for (int i = 1; i < in_flight_; ++i)
    running.push_back(all_.async(feeds_));  // each step that ends is replaced while time is measured
  const double per_step = seconds_per_call(seconds, [&] {
    running.push_back(all_.async(feeds_));
    running.front().get();
    running.pop_front();
  });
  for (auto& step : running) step.get();
  return per_step / times_;
}

void GpuStep::check_recorded() {
  RecordingStats stats;
  for (int i = 0; i < 5; ++i) all_(feeds_);
  for (std::size_t i = 0; i < task_.devices().size(); ++i)
    if (const Device& device = task_.device(static_cast<int>(i)); device.attributes().type == "GPU")
      stats = device.recording_stats();
  if (stats.launches == 0)
    fail(Code::internal, "the GPU did not record the steps{}{}", stats.last_refusal.empty() ? "" : ": ",
         stats.last_refusal);
}

}  // namespace troupe::bench
