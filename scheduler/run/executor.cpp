#include "troupe/scheduler/run/executor.hpp"

#include <troupe/scheduler/resources/make_resource.hpp>
#include <troupe/scheduler/run/loop_run.hpp>
#include <troupe/scheduler/run/node_context.hpp>
#include <troupe/scheduler/run/replay.hpp>

namespace troupe {
namespace {

// The frame of the branch that is chosen.
PlanFrame& chosen_branch(PlanFrame& frame, const PlanNode& node, NodeContext& context, Device& device) {
  const Tensor condition = device.read(context.input(0));
  if (!condition.valid() || condition.dtype() != DType::boolean || condition.num_elements() != 1)
    invalid_argument("the condition must be one bool, not {}", condition.to_string());
  const bool taken = condition.item<bool>();
  const auto& branch = frame.plan().branches[node.target];
  const Plan& body = taken ? *branch.then_plan : *branch.else_plan;
  auto& owned = frame.branch_frames[2 * node.target + (taken ? 0 : 1)];
  if (!owned) owned = std::make_unique<PlanFrame>(body, std::vector<Variable*>(body.variables.size()));
  return *owned;
}

PlanFrame* paused_branch(const PlanFrame& frame, const PlanNode& node) {
  for (const std::uint32_t i : {0u, 1u})
    if (PlanFrame* inner = frame.branch_frames[2 * node.target + i].get(); inner && inner->paused()) return inner;
  return nullptr;
}

void set_arguments(PlanFrame& inner, NodeContext& context, RandomKey random) {
  const Plan& body = inner.plan();
  inner.begin(random);
  for (std::size_t i = 0; i < body.argument_slots.size(); ++i) {
    const int input = static_cast<int>(i) + 1;
    if (body.argument_variables[i] != Plan::kNoSlot) {
      inner.variables[body.argument_variables[i]] = &context.variable(input);
      continue;
    }
    Tensor taken = context.take_input(input);
    inner.slots[body.argument_slots[i]] = taken.valid() ? std::move(taken) : context.input(input);
  }
}

// Runs the chosen branch of an If in a separate frame. Returns false if it has paused.
bool run_branch(PlanFrame& frame, const PlanNode& node, NodeContext& context, const Surroundings& around) {
  PlanFrame* inner = paused_branch(frame, node);
  if (!inner) {
    inner = &chosen_branch(frame, node, context, around.device);
    set_arguments(*inner, context, frame.random);
  }
  const Plan& body = inner->plan();
  if (Error error = run_in_order(*inner, 0, static_cast<std::uint32_t>(body.nodes.size()), around)) throw error;
  if (inner->paused()) return false;
  for (std::size_t i = 0; i < body.results.size(); ++i) {
    const InputRef ref = body.results[i];
    context.set_output(static_cast<int>(i),
                       ref.kind == InputRef::Kind::constant ? body.constants[ref.index] : inner->slots[ref.index]);
  }
  inner->clear();
  return true;
}

}  // namespace

bool run_node(PlanFrame& frame, const PlanNode& node, NodeContext& context, const Surroundings& around) {
  const Plan& plan = frame.plan();
  switch (node.kind) {
    case PlanNode::Kind::kernel:
      plan.kernels[node.target](context);
      break;  // run_nodes calls these directly
    case PlanNode::Kind::send:
      around.outbox.send(node.target, context.input(0));
      break;
    case PlanNode::Kind::push:
      around.outbox.push(plan.pushes[node.target], context.input(0), Tensor());
      break;
    case PlanNode::Kind::push_sparse:
      around.outbox.push(plan.pushes[node.target], context.input(1), context.input(0));
      break;
    case PlanNode::Kind::ask_rows:
      around.outbox.ask(plan.asks[node.target], context.input(0));
      break;
    case PlanNode::Kind::call:
      around.outbox.call(plan.calls[node.target], context.variable(0), context.input(1));
      break;
    case PlanNode::Kind::contribute:
      around.outbox.contribute(plan.contributions[node.target], context.input(0));
      break;
    case PlanNode::Kind::fetch:
      frame.fetches[node.target] = context.input(0);
      break;
    case PlanNode::Kind::branch:
      return run_branch(frame, node, context, around);
    case PlanNode::Kind::loop:
      return frame.loops[node.target]->run(frame, context, around);
  }
  if (node.flushes) around.outbox.flush();
  return true;
}

Error node_error(const Plan& plan, const PlanNode& node) {
  const NodeInfo& info = plan.info(node);
  return current_error().within(fmt::format("{} '{}' on {}", info.op, info.name, plan.device));
}

Error run_nodes(PlanFrame& frame, std::uint32_t first, std::uint32_t end, const Surroundings& around) {
  const Plan& plan = frame.plan();
  NodeContext context(frame, around.device, false);
  const PlanNode* const nodes = plan.nodes.data();
  const Kernel* const kernels = plan.kernels.data();
  std::uint32_t at = frame.paused() ? std::exchange(frame.resume_at, PlanFrame::kIdle) : first;
  try {
    for (; at < end; ++at) {
      const PlanNode& node = nodes[at];
      if (around.aborted.load(std::memory_order_relaxed)) return Error(Code::cancelled, "the step was aborted");
      frame.current_node.store(at, std::memory_order_relaxed);
      context.enter(node);
      if (node.kind == PlanNode::Kind::kernel) [[likely]] {
        kernels[node.target](context);
      } else if (!run_node(frame, node, context, around)) {
        frame.resume_at = at;
        return Error();
      }
      context.leave();
    }
  } catch (...) {
    return node_error(plan, nodes[at]);
  }
  return Error();
}

Variable& VariableStore::get(const VariableDecl& decl) {
  std::lock_guard lock(mutex_);
  auto& variable = variables_[decl.name];
  if (!decl.op.empty()) {
    const std::shared_ptr<Resource> wanted = make_resource(decl.name, decl.op, decl.attributes);
    if (!variable) variable = wanted;
    const auto* found = variable->dtype() == DType::resource ? static_cast<const Resource*>(variable.get()) : nullptr;
    if (!found || found->declaration() != wanted->declaration())
      invalid_argument("'{}' is {} in this session or its container, but the graph declares it as {}", decl.name,
                       found ? found->declaration() : "a variable", wanted->declaration());
    return *variable;
  }
  if (!variable)
    variable = std::make_shared<Variable>(decl.name, decl.dtype, decl.shape);
  else if (variable->dtype() != decl.dtype || !(variable->shape() == decl.shape))
    invalid_argument("variable '{}' is {}{} in this session or its container, but the graph declares it as {}{}",
                     decl.name, name(variable->dtype()), variable->shape().to_string(), name(decl.dtype),
                     decl.shape.to_string());
  return *variable;
}

void VariableStore::share(const std::string& name, std::shared_ptr<Variable> variable) {
  const std::lock_guard lock(mutex_);
  if (!variables_.emplace(name, std::move(variable)).second)
    fail(Code::already_exists, "there is a variable '{}' already", name);
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
  for (const Plan::Loop& loop : plan.loops) loops.push_back(std::make_unique<LoopRun>(loop));
}

PlanFrame::~PlanFrame() = default;

void PlanFrame::begin(RandomKey key) {
  random = key;
  if (plan_.counts_uses) uses = plan_.slot_uses;
  aborted.store(false, std::memory_order_relaxed);
}

std::string PlanFrame::running() const {
  const std::uint32_t node = current_node.load(std::memory_order_relaxed);
  if (node >= plan_.infos.size()) return "";
  const std::string name = fmt::format("{} '{}'", plan_.infos[node].op, plan_.infos[node].name);
  if (plan_.nodes[node].kind != PlanNode::Kind::loop) return name;
  const PlanFrame& body = loops[plan_.nodes[node].target]->body();
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
  for (const auto& loop : loops) loop->clear();
  resume_at = kIdle;
}

void PlanFrame::release_blocks() {
  for (BufferRef& block : blocks) block = BufferRef();
  for (const auto& inner : branch_frames)
    if (inner) inner->release_blocks();
  for (const auto& loop : loops) loop->release_blocks();
}

// Uploads feeds to the memory that the device's kernels read. Feeds already there stay.
void bring_feeds(PlanFrame& frame, Device& device) {
  for (const std::uint32_t slot : frame.plan().feed_slots)
    if (slot != Plan::kNoSlot && frame.slots[slot].valid()) frame.slots[slot] = device.upload(frame.slots[slot]);
}

Error run_segment(PlanFrame& frame, std::uint32_t segment, Device& device, Outbox& outbox, Pauses* pauses) {
  const Segment& which = frame.plan().segments[segment];
  const bool synchronous = device.attributes().synchronous;
  if (!synchronous && !frame.paused()) {
    try {
      bring_feeds(frame, device);
    } catch (...) {
      return current_error().within(frame.plan().device);
    }
  }
  // Loops pause, which a segment that is recorded or runs on several threads cannot.
  const Surroundings around{device, outbox, frame.aborted, which.loops ? pauses : nullptr};
  Error error;
  if (which.order >= 0 && device.parallelism().threads() > 1)
    error = run_side_by_side(frame, which, frame.plan().orders[static_cast<std::size_t>(which.order)], around);
  else if (synchronous || which.loops || TraceSlice::current())
    error = run_in_order(frame, which.first_node, which.first_node + which.num_nodes, around);
  else
    error = run_with_replays(frame, segment, around);
  if (!frame.paused()) frame.current_node.store(PlanFrame::kIdle, std::memory_order_relaxed);
  return error;
}

}  // namespace troupe
