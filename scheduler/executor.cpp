#include "scheduler/executor.hpp"

namespace troupe {
namespace {

class NodeContext final : public KernelContext {
 public:
  NodeContext(PlanFrame& frame, Device& device) : frame_(frame), plan_(frame.plan()), device_(device) {}

  void enter(const PlanNode& node) {
    node_ = &node;
    refs_ = plan_.inputs.data() + node.first_input;
  }
  int num_inputs() const override { return node_->num_inputs; }
  const Tensor& input(int index) const override {
    const InputRef ref = refs_[index];
    if (ref.kind == InputRef::Kind::constant) return plan_.constants[ref.index];
    if (ref.kind == InputRef::Kind::variable) invalid_argument("input {} is a variable; a tensor was expected: read it first", index);
    return frame_.slots[ref.index];
  }
  Variable& variable(int index) override {
    const InputRef ref = refs_[index];
    if (ref.kind != InputRef::Kind::variable) invalid_argument("input {} is a tensor; a variable was expected", index);
    return *frame_.variables[ref.index];
  }
  void set_output(int index, Tensor value) override {
    const std::uint32_t slot = node_->first_output + static_cast<std::uint32_t>(index);
    // What nobody reads would only keep memory, and variables from being updated in place.
    if (plan_.slot_is_read[slot]) frame_.slots[slot] = std::move(value);
  }
  Tensor take_input(int index) override {
    const InputRef ref = refs_[index];
    const bool last = ref.kind == InputRef::Kind::slot_last ||
                      (ref.kind == InputRef::Kind::slot_counted && frame_.uses[ref.index] == 1);
    if (!last) return {};
    // The same slot may be another input of this node too: those refs are not the last use, unless counted together.
    for (int i = 0; i < node_->num_inputs; ++i)
      if (i != index && refs_[i].index == ref.index && refs_[i].kind != InputRef::Kind::constant &&
          refs_[i].kind != InputRef::Kind::variable)
        return {};
    Tensor& slot = frame_.slots[ref.index];
    return slot.unique() && slot.aligned() ? std::move(slot) : Tensor();
  }
  Device& device() override { return device_; }
  RandomKey random_key() const override {
    RandomKey key = frame_.random;
    if (node_->slot >= 0) key.slot = static_cast<std::uint32_t>(node_->slot);
    return key;
  }
  std::uint64_t node_hash() const override { return node_->hash; }

  // Lets go of inputs this node was the last to use.
  void leave() {
    for (std::uint32_t i = 0; i < node_->num_inputs; ++i) {
      const InputRef ref = refs_[i];
      if (ref.kind == InputRef::Kind::slot_last || (ref.kind == InputRef::Kind::slot_counted && --frame_.uses[ref.index] == 0))
        frame_.slots[ref.index] = Tensor();
    }
  }

 private:
  PlanFrame& frame_;
  const Plan& plan_;
  Device& device_;
  const PlanNode* node_ = nullptr;
  const InputRef* refs_ = nullptr;
};

Error run_nodes(PlanFrame& frame, const Segment& segment, const std::atomic<bool>& aborted, Device& device, Outbox& outbox);

// Runs the chosen branch of an If in a frame of its own.
void run_branch(PlanFrame& frame, const PlanNode& node, NodeContext& context, const std::atomic<bool>& aborted, Device& device,
                Outbox& outbox) {
  const Tensor& condition = context.input(0);
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
    if (Error error = run_nodes(inner, segment, aborted, device, outbox)) throw error;
  for (std::size_t i = 0; i < body.results.size(); ++i) {
    const InputRef ref = body.results[i];
    context.set_output(static_cast<int>(i), ref.kind == InputRef::Kind::constant ? body.constants[ref.index] : inner.slots[ref.index]);
  }
  inner.clear();
}

void run_node(PlanFrame& frame, const PlanNode& node, NodeContext& context, const std::atomic<bool>& aborted, Device& device,
              Outbox& outbox) {
  const Plan& plan = frame.plan();
  switch (node.kind) {
    case PlanNode::Kind::kernel: plan.kernels[node.target](context); break;
    case PlanNode::Kind::send: outbox.send(node.target, context.input(0)); break;
    case PlanNode::Kind::push: outbox.push(plan.pushes[node.target], context.input(0), Tensor()); break;
    case PlanNode::Kind::push_sparse: outbox.push(plan.pushes[node.target], context.input(1), context.input(0)); break;
    case PlanNode::Kind::fetch: frame.fetches[node.target] = context.input(0); break;
    case PlanNode::Kind::branch: run_branch(frame, node, context, aborted, device, outbox); break;
  }
}

Error run_nodes(PlanFrame& frame, const Segment& segment, const std::atomic<bool>& aborted, Device& device, Outbox& outbox) {
  const Plan& plan = frame.plan();
  NodeContext context(frame, device);
  for (std::uint32_t i = segment.first_node; i < segment.first_node + segment.num_nodes; ++i) {
    if (aborted.load(std::memory_order_relaxed)) return Error(Code::cancelled, "the step was aborted");
    const PlanNode& node = plan.nodes[i];
    frame.current_node.store(i, std::memory_order_relaxed);
    context.enter(node);
    try {
      run_node(frame, node, context, aborted, device, outbox);
    } catch (...) {
      return current_error().within(fmt::format("{} '{}' on {}", plan.names[node.name].op, plan.names[node.name].node, plan.device));
    }
    context.leave();
  }
  return Error();
}

}  // namespace

Variable& VariableStore::get(const VariableDecl& decl) {
  std::lock_guard lock(mutex_);
  auto& variable = variables_[decl.name];
  if (!variable)
    variable = std::make_unique<Variable>(decl.name, decl.dtype, decl.shape);
  else if (variable->dtype() != decl.dtype || !(variable->shape() == decl.shape))
    invalid_argument("variable '{}' is {}{} in this session, a graph declares it as {}{}", decl.name, name(variable->dtype()),
                     variable->shape().to_string(), name(decl.dtype), decl.shape.to_string());
  return *variable;
}

PlanFrame::PlanFrame(const Plan& plan, std::vector<Variable*> bound, std::shared_ptr<const void> owner)
    : slots(plan.num_slots),
      fetches(plan.fetch_indices.size()),
      uses(plan.slot_uses),
      variables(std::move(bound)),
      branch_frames(plan.branches.size() * 2),
      plan_(plan),
      owner_(std::move(owner)) {}

void PlanFrame::begin(RandomKey key) {
  random = key;
  uses = plan_.slot_uses;
  aborted.store(false, std::memory_order_relaxed);
}

void PlanFrame::clear() {
  for (Tensor& t : slots)
    if (t.valid()) t = Tensor();
  for (Tensor& t : fetches) t = Tensor();
  for (const auto& inner : branch_frames)
    if (inner) inner->clear();
}

Error run_segment(PlanFrame& frame, std::uint32_t segment, Device& device, Outbox& outbox) {
  Error error = run_nodes(frame, frame.plan().segments[segment], frame.aborted, device, outbox);
  frame.current_node.store(PlanFrame::kIdle, std::memory_order_relaxed);
  return error;
}

}  // namespace troupe
