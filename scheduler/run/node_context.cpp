#include "troupe/scheduler/run/node_context.hpp"

#include <algorithm>

namespace troupe {

const Tensor& NodeContext::input(int index) const {
  const InputRef ref = refs_[index];
  if (ref.kind == InputRef::Kind::constant) return plan_.constants[ref.index];
  if (ref.kind == InputRef::Kind::variable)
    invalid_argument("input {} is a variable; a tensor was expected: read it first", index);
  return frame_.slots[ref.index];
}

Variable& NodeContext::variable(int index) {
  const InputRef ref = refs_[index];
  if (ref.kind != InputRef::Kind::variable) invalid_argument("input {} is a tensor; a variable was expected", index);
  return *frame_.variables[ref.index];
}

void NodeContext::set_output(int index, Tensor&& value) {
  const std::uint32_t slot = node_->first_output + static_cast<std::uint32_t>(index);
  // Unread outputs would only hold memory, and keep variables from being updated in place.
  if (plan_.slot_is_read[slot]) frame_.slots[slot] = std::move(value);
}

Tensor NodeContext::take_input(int index) {
  const InputRef ref = refs_[index];
  const bool last =
      ref.kind == InputRef::Kind::slot_last || (ref.kind == InputRef::Kind::slot_counted && only_use_left(ref.index));
  if (!last) return {};
  // The same slot may be another input of this node: those refs are not the last use, unless counted together.
  for (int i = 0; i < node_->num_inputs; ++i)
    if (i != index && refs_[i].index == ref.index && refs_[i].kind != InputRef::Kind::constant &&
        refs_[i].kind != InputRef::Kind::variable)
      return {};
  Tensor& slot = frame_.slots[ref.index];
  return held_by_slot_only(ref.index) && slot.aligned() ? std::move(slot) : Tensor();
}

bool NodeContext::held_by_slot_only(std::uint32_t slot) const {
  const BufferRef& buffer = frame_.slots[slot].buffer();
  if (!buffer) return false;
  const std::uint32_t references = buffer->references();
  if (references == 1) return true;
  const std::uint32_t block = plan_.memory.block_of[slot];
  return references == 2 && block != MemoryPlan::kNone && frame_.blocks[block].get() == buffer.get();
}

BufferRef NodeContext::NodeMemory::allocate(std::size_t bytes, DType dtype, const Shape& shape) {
  const PlanNode& node = *context_.node_;
  const MemoryPlan& plan = context_.plan_.memory;
  constexpr std::uint32_t kTracked = 64;
  if (!context_.planned_) return context_.device_.allocator().allocate(bytes, dtype, shape);
  for (std::uint32_t output = 0; output < std::min<std::uint32_t>(node.num_outputs, kTracked); ++output) {
    const std::uint32_t slot = node.first_output + output;
    const std::uint32_t block = plan.block_of[slot];
    const std::uint64_t bit = std::uint64_t{1} << output;
    if (block == MemoryPlan::kNone || plan.slot_bytes[slot] != bytes || (context_.lent_ & bit) != 0) continue;
    context_.lent_ |= bit;
    BufferRef& planned = context_.frame_.blocks[block];
    // If a client or a variable still holds the block's memory, the block gets new memory.
    if (!planned || !planned->unique())
      planned = context_.device_.allocator().allocate(plan.block_bytes[block], dtype, shape);
    return planned;
  }
  return context_.device_.allocator().allocate(bytes, dtype, shape);
}

}  // namespace troupe
