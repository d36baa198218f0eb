// The kernel context of a running plan: serves one node after another, on one thread. Part of the executor.
#pragma once

#include <troupe/scheduler/run/executor.hpp>
#include <troupe/scheduler/trace/trace.hpp>

namespace troupe {

class NodeContext final : public KernelContext, private AllocationSource {
 public:
  // `shared`: other threads run nodes of the same frame concurrently. `planned`: outputs use the frame's blocks.
  NodeContext(PlanFrame& frame, Device& device, bool shared, bool planned = true)
      : frame_(frame),
        plan_(frame.plan()),
        device_(device),
        shared_(shared),
        planned_(planned),
        memory_(*this),
        scope_(*this) {}

  void enter(const PlanNode& node) {
    node_ = &node;
    refs_ = plan_.inputs.data() + node.first_input;
    lent_ = 0;
  }
  // Releases inputs whose last use was this node.
  void leave() {
    for (std::uint32_t i = 0; i < node_->num_inputs; ++i) {
      const InputRef ref = refs_[i];
      if (ref.kind == InputRef::Kind::slot_last || (ref.kind == InputRef::Kind::slot_counted && used(ref.index)))
        frame_.slots[ref.index].reset();
    }
  }

  int num_inputs() const override { return node_->num_inputs; }
  const Tensor& input(int index) const override;
  Variable& variable(int index) override;
  using KernelContext::set_output;
  void set_output(int index, Tensor&& value) override;
  Tensor take_input(int index) override;
  Device& device() override { return device_; }
  Allocator& allocator() override { return memory_; }
  RandomKey random_key() const override {
    RandomKey key = frame_.random;
    if (const std::int32_t slot = plan_.info(*node_).slot; slot >= 0) key.slot = static_cast<std::uint32_t>(slot);
    return key;
  }
  std::uint64_t node_hash() const override { return plan_.info(*node_).hash; }
  std::int64_t random_slot() const override { return plan_.info(*node_).slot; }

 private:
  // Allocates the node's outputs in their planned blocks, and everything else in device memory.
  class NodeMemory final : public Allocator {
   public:
    explicit NodeMemory(NodeContext& context) : context_(context) {}
    BufferRef allocate(std::size_t bytes, DType dtype, const Shape& shape) override;
    AllocatorStats stats() const override { return context_.device_.allocator().stats(); }
    MemorySpace space() const override { return context_.device_.allocator().space(); }

   private:
    NodeContext& context_;
  };

  AllocationLabel allocating() const override {
    const NodeInfo& info = plan_.info(*node_);
    return {info.op, info.name};
  }

  // Counts a use; returns true if it was the last.
  bool used(std::uint32_t slot) {
    std::uint16_t& uses = frame_.uses[slot];
    if (!shared_) return --uses == 0;
    return std::atomic_ref(uses).fetch_sub(1, std::memory_order_acq_rel) == 1;
  }
  bool only_use_left(std::uint32_t slot) const {
    std::uint16_t& uses = frame_.uses[slot];
    return (shared_ ? std::atomic_ref(uses).load(std::memory_order_acquire) : uses) == 1;
  }
  // Whether the slot, and possibly its block in the frame, are the only references to the tensor's memory.
  bool held_by_slot_only(std::uint32_t slot) const;

  PlanFrame& frame_;
  const Plan& plan_;
  Device& device_;
  const bool shared_;
  const bool planned_;
  NodeMemory memory_;
  const AllocationScope scope_;
  const PlanNode* node_ = nullptr;
  const InputRef* refs_ = nullptr;
  std::uint64_t lent_ = 0;  // bit i: output i of the node has its block
};

// What surrounds nodes while they run.
struct Surroundings {
  Device& device;
  Outbox& outbox;
  const std::atomic<bool>& aborted;  // of the step
  Pauses* pauses = nullptr;
};

// Runs the node that the context has entered; the caller calls leave(). Propagates the kernel's exceptions. Returns
// false if it has paused: to go on, enter it again.
bool run_node(PlanFrame& frame, const PlanNode& node, NodeContext& context, const Surroundings& around);
// The error in flight, with the node's op, name and device. Call inside a catch block.
Error node_error(const Plan& plan, const PlanNode& node);
// Runs nodes [first, end) of the plan one after another; a paused frame goes on where it paused.
Error run_nodes(PlanFrame& frame, std::uint32_t first, std::uint32_t end, const Surroundings& around);
// The same on a traced thread.
Error run_nodes_traced(PlanFrame& frame, std::uint32_t first, std::uint32_t end, const Surroundings& around);
// Either of them.
inline Error run_in_order(PlanFrame& frame, std::uint32_t first, std::uint32_t end, const Surroundings& around) {
  return (TraceSlice::current() ? run_nodes_traced : run_nodes)(frame, first, end, around);
}
bool run_node_traced(PlanFrame& frame, const PlanNode& node, NodeContext& context, const Surroundings& around,
                     const TraceSlice& segment);
// Runs the nodes of a segment on all idle threads of the device, in an order that NodeOrder allows.
Error run_side_by_side(PlanFrame& frame, const Segment& segment, const NodeOrder& order, const Surroundings& around);

}  // namespace troupe
