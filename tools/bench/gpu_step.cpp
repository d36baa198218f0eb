#include "tools/bench/gpu_step.hpp"

#include "graph/ops.hpp"
#include "tools/bench/harness.hpp"

namespace troupe::bench {
namespace {

constexpr const char* kGpu = "GPU:0";

// Runs there or nowhere.
SessionOptions session_options(bool optimize) { return {.optimize = optimize, .soft_placement = false}; }

Output initial(Graph& graph, const GpuInput& input) {
  if (is_integer(input.dtype)) return cast(random_uniform(graph, input.shape, 0, static_cast<double>(input.below)), input.dtype);
  return cast(random_uniform(graph, input.shape, -1, 1), input.dtype);
}

}  // namespace

GpuStep::GpuStep(const std::vector<GpuInput>& inputs, int times, const Make& make, Options options)
    : task_({.gpus = {.count = 1, .tf32 = options.tf32}}), times_(times) {
  std::vector<Output> values, made;
  for (const GpuInput& input : inputs)
    values.push_back(variable(graph_, {.name = "input", .initial_value = initial(graph_, input), .device = kGpu}).read());
  {
    const auto there = graph_.on_device(kGpu);
    for (int i = 0; i < times; ++i)
      for (const Output& output : make(values)) made.push_back(output);
  }
  const Output initialize = initializer(graph_);
  session_ = std::make_unique<Session>(task_, graph_, session_options(options.optimize));
  session_->run_targets({initialize});
  all_ = options.fetch ? session_->callable({}, made) : session_->callable({}, {}, made);
}

double GpuStep::seconds_per_node(double seconds) const {
  return seconds_per_call(seconds, [this] { all_({}); }) / times_;
}

void GpuStep::check_recorded() {
  RecordingStats stats;
  for (int i = 0; i < 5; ++i) all_({});
  for (std::size_t i = 0; i < task_.devices().size(); ++i)
    if (const Device& device = task_.device(static_cast<int>(i)); device.attributes().type == "GPU") stats = device.recording_stats();
  if (stats.launches == 0) fail(Code::internal, "the GPU has recorded no step{}{}", stats.last_refusal.empty() ? "" : ": ", stats.last_refusal);
}

GpuFeed::GpuFeed(Tensor value) : value_(std::move(value)), task_({.gpus = {.count = 1}}) {
  const Output fed = placeholder(graph_, value_.dtype(), value_.shape());
  Output there;
  {
    const auto device = graph_.on_device(kGpu);
    there = add_op("Identity", {fed});
  }
  session_ = std::make_unique<Session>(task_, graph_, session_options(false));
  feed_ = session_->callable({fed}, {}, {there});
}

double GpuFeed::seconds(double seconds) const {
  return seconds_per_call(seconds, [this] { feed_({value_}); });
}

}  // namespace troupe::bench
