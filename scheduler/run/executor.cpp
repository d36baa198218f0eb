#include "troupe/scheduler/run/executor.hpp"

#include <troupe/scheduler/run/node_context.hpp>
#include <troupe/scheduler/run/replay.hpp>

namespace troupe {
namespace {

// Runs the chosen branch of an If in a separate frame.
void run_branch(PlanFrame& frame, const PlanNode& node, NodeContext& context, const std::atomic<bool>& aborted,
                Device& device, Outbox& outbox) {
  const Tensor condition = device.read(context.input(0));
  if (!condition.valid() || condition.dtype() != DType::boolean || condition.num_elements() != 1)
    invalid_argument("the condition must be one bool, not {}", condition.to_string());
  const bool taken = condition.item<bool>();
  const auto& branch = frame.plan().branches[node.target];
  const Plan& body = taken ? *branch.then_plan : *branch.else_plan;
  auto& owned = frame.branch_frames[2 * node.target + (taken ? 0 : 1)];
  if (!owned) owned = std::make_unique<PlanFrame>(body, std::vector<Variable*>(body.variables.size()));
  PlanFrame& inner = *owned;
  inner.begin(frame.random);
  for (std::size_t i = 0; i < body.argument_slots.size(); ++i) {
    const int input = static_cast<int>(i) + 1;
    if (body.argument_variables[i] != Plan::kNoSlot) {
      inner.variables[body.argument_variables[i]] = &context.variable(input);
      continue;
    }
    Tensor taken = context.take_input(input);
    inner.slots[body.argument_slots[i]] = taken.valid() ? std::move(taken) : context.input(input);
  }
  for (const Segment& segment : body.segments)
    if (Error error =
            (TraceSlice::current() ? run_in_order_traced : run_in_order)(inner, segment, aborted, device, outbox))
      throw error;
  for (std::size_t i = 0; i < body.results.size(); ++i) {
    const InputRef ref = body.results[i];
    context.set_output(static_cast<int>(i),
                       ref.kind == InputRef::Kind::constant ? body.constants[ref.index] : inner.slots[ref.index]);
  }
  inner.clear();
}

}  // namespace

void run_node(PlanFrame& frame, const PlanNode& node, NodeContext& context, const std::atomic<bool>& aborted,
              Device& device, Outbox& outbox) {
  const Plan& plan = frame.plan();
  switch (node.kind) {
    case PlanNode::Kind::kernel:
      plan.kernels[node.target](context);
      break;  // run_nodes calls these directly
    case PlanNode::Kind::send:
      outbox.send(node.target, context.input(0));
      break;
    case PlanNode::Kind::push:
      outbox.push(plan.pushes[node.target], context.input(0), Tensor());
      break;
    case PlanNode::Kind::push_sparse:
      outbox.push(plan.pushes[node.target], context.input(1), context.input(0));
      break;
    case PlanNode::Kind::contribute:
      outbox.contribute(plan.contributions[node.target], context.input(0));
      break;
    case PlanNode::Kind::fetch:
      frame.fetches[node.target] = context.input(0);
      break;
    case PlanNode::Kind::branch:
      run_branch(frame, node, context, aborted, device, outbox);
      break;
    case PlanNode::Kind::loop:
      run_loop(frame, node, context, aborted, device, outbox);
      break;
  }
  if (node.flushes) outbox.flush();
}

Error node_error(const Plan& plan, const PlanNode& node) {
  const NodeInfo& info = plan.info(node);
  return current_error().within(fmt::format("{} '{}' on {}", info.op, info.name, plan.device));
}

Error run_nodes(PlanFrame& frame, std::uint32_t first, std::uint32_t end, const std::atomic<bool>& aborted,
                Device& device, Outbox& outbox) {
  const Plan& plan = frame.plan();
  NodeContext context(frame, device, false);
  const PlanNode* const nodes = plan.nodes.data();
  const Kernel* const kernels = plan.kernels.data();
  std::uint32_t at = first;
  try {
    for (; at < end; ++at) {
      const PlanNode& node = nodes[at];
      if (aborted.load(std::memory_order_relaxed)) return Error(Code::cancelled, "the step was aborted");
      frame.current_node.store(at, std::memory_order_relaxed);
      context.enter(node);
      if (node.kind == PlanNode::Kind::kernel) [[likely]]
        kernels[node.target](context);
      else
        run_node(frame, node, context, aborted, device, outbox);
      context.leave();
    }
  } catch (...) {
    return node_error(plan, nodes[at]);
  }
  return Error();
}

Error run_in_order(PlanFrame& frame, const Segment& segment, const std::atomic<bool>& aborted, Device& device,
                   Outbox& outbox) {
  return run_nodes(frame, segment.first_node, segment.first_node + segment.num_nodes, aborted, device, outbox);
}

Variable& VariableStore::get(const VariableDecl& decl) {
  std::lock_guard lock(mutex_);
  auto& variable = variables_[decl.name];
  if (!variable)
    variable = std::make_unique<Variable>(decl.name, decl.dtype, decl.shape);
  else if (variable->dtype() != decl.dtype || !(variable->shape() == decl.shape))
    invalid_argument("variable '{}' is {}{} in this session, but the graph declares it as {}{}", decl.name,
                     name(variable->dtype()), variable->shape().to_string(), name(decl.dtype), decl.shape.to_string());
  return *variable;
}

PlanFrame::PlanFrame(const Plan& plan, std::vector<Variable*> bound, std::shared_ptr<const void> owner)
    : slots(plan.num_slots),
      fetches(plan.fetch_indices.size()),
      uses(plan.slot_uses),
      variables(std::move(bound)),
      branch_frames(plan.branches.size() * 2),
      blocks(plan.memory.block_bytes.size()),
      replays(plan.segments.size()),
      plan_(plan),
      owner_(std::move(owner)) {
  for (const Plan::Loop& loop : plan.loops)
    loop_frames.push_back(std::make_unique<PlanFrame>(*loop.body, std::vector<Variable*>(loop.body->variables.size())));
}

PlanFrame::~PlanFrame() = default;

void PlanFrame::begin(RandomKey key) {
  random = key;
  uses = plan_.slot_uses;
  aborted.store(false, std::memory_order_relaxed);
}

std::string PlanFrame::running() const {
  const std::uint32_t node = current_node.load(std::memory_order_relaxed);
  if (node >= plan_.infos.size()) return "";
  const std::string name = fmt::format("{} '{}'", plan_.infos[node].op, plan_.infos[node].name);
  if (plan_.nodes[node].kind != PlanNode::Kind::loop) return name;
  const PlanFrame& body = *loop_frames[plan_.nodes[node].target];
  const std::string inner = body.running();
  return fmt::format("{}, iteration {}{}{}", name, body.iteration.load(std::memory_order_relaxed),
                     inner.empty() ? "" : ": ", inner);
}

void PlanFrame::clear() {
  for (Tensor& t : slots)
    if (t.valid()) t = Tensor();
  for (Tensor& t : fetches) t = Tensor();
  for (const auto& inner : branch_frames)
    if (inner) inner->clear();
  for (const auto& inner : loop_frames) inner->clear();
}

// Uploads feeds to the memory that the device's kernels read. Feeds already there stay.
void bring_feeds(PlanFrame& frame, Device& device) {
  for (const std::uint32_t slot : frame.plan().feed_slots)
    if (slot != Plan::kNoSlot && frame.slots[slot].valid()) frame.slots[slot] = device.upload(frame.slots[slot]);
}

Error run_segment(PlanFrame& frame, std::uint32_t segment, Device& device, Outbox& outbox) {
  if (!device.attributes().synchronous) {
    try {
      bring_feeds(frame, device);
    } catch (...) {
      return current_error().within(frame.plan().device);
    }
  }
  const Segment& which = frame.plan().segments[segment];
  const bool side_by_side = which.order >= 0 && device.parallelism().threads() > 1;
  Error error =
      side_by_side
          ? run_side_by_side(frame, which, frame.plan().orders[static_cast<std::size_t>(which.order)], device, outbox)
      : TraceSlice::current()           ? run_in_order_traced(frame, which, frame.aborted, device, outbox)
      : device.attributes().synchronous ? run_in_order(frame, which, frame.aborted, device, outbox)
                                        : run_with_replays(frame, segment, device, outbox);
  frame.current_node.store(PlanFrame::kIdle, std::memory_order_relaxed);
  return error;
}

}  // namespace troupe
