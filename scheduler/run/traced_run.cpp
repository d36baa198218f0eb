// Runs nodes of a traced task: like the executor, with one slice per node.
#include <algorithm>

#include <troupe/scheduler/run/node_context.hpp>

namespace troupe {
namespace {

std::uint64_t bytes_of(const Tensor& tensor) { return tensor.valid() ? tensor.num_bytes() : 0; }

void note_outputs(TraceEvent& event, const PlanFrame& frame, const PlanNode& node) {
  for (std::uint32_t i = 0; i < node.num_outputs; ++i) {
    const Tensor& output = frame.slots[node.first_output + i];
    if (!output.valid()) continue;
    event.bytes += output.num_bytes();
    const auto& dims = output.shape().dims();
    if (i > 0 || dims.size() > event.dims.size()) continue;
    event.dtype = output.dtype();
    event.rank = static_cast<std::uint8_t>(dims.size());
    std::ranges::transform(dims, event.dims.begin(), [](std::int64_t d) {
      return static_cast<std::int32_t>(std::min<std::int64_t>(d, INT32_MAX));
    });
  }
}

}  // namespace

bool run_node_traced(PlanFrame& frame, const PlanNode& node, NodeContext& context, const Surroundings& around,
                     const TraceSlice& segment) {
  const bool computes =
      node.kind == PlanNode::Kind::kernel || node.kind == PlanNode::Kind::branch || node.kind == PlanNode::Kind::loop;
  const NodeInfo& info = frame.plan().info(node);
  TraceSlice slice(segment.trace(), computes ? TraceKind::kernel : TraceKind::transfer, info.name, segment.step(),
                   info.op);
  if (!computes)
    for (int i = 0; i < node.num_inputs; ++i) slice.event().bytes += bytes_of(context.input(i));
  const bool finished = run_node(frame, node, context, around);
  if (computes && finished) note_outputs(slice.event(), frame, node);
  return finished;
}

Error run_nodes_traced(PlanFrame& frame, std::uint32_t first, std::uint32_t end, const Surroundings& around) {
  const Plan& plan = frame.plan();
  const TraceSlice& segment = *TraceSlice::current();
  NodeContext context(frame, around.device, false);
  std::uint32_t at = frame.paused() ? std::exchange(frame.resume_at, PlanFrame::kIdle) : first;
  for (; at < end; ++at) {
    const PlanNode& node = plan.nodes[at];
    if (around.aborted.load(std::memory_order_relaxed)) return Error(Code::cancelled, "the step was aborted");
    frame.current_node.store(at, std::memory_order_relaxed);
    context.enter(node);
    try {
      if (!run_node_traced(frame, node, context, around, segment)) {
        frame.resume_at = at;
        return Error();
      }
    } catch (...) {
      return node_error(plan, node);
    }
    context.leave();
  }
  return Error();
}

}  // namespace troupe
