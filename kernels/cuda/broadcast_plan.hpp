// Builds IndexPlans from shapes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <troupe/kernels/cuda/index_plan.hpp>
#include <troupe/messages/shape.hpp>

namespace troupe {

// Memory of an operand or of the result.
struct OperandMemory {
  const void* data = nullptr;
  std::size_t element_bytes = 1;
};

inline constexpr int kMaxPlanOperands = 16;

// Merges the dimensions of operands of the given shapes, broadcast to `out`, into a plan with items of one element.
// Throws invalid_argument if a shape does not broadcast.
IndexPlan<kMaxPlanOperands> plan_items(const Shape& out, std::span<const Shape> operands);

// Turns items of one element into items of `width` (a power of two) if every moving operand and the result have all
// items at addresses that are multiples of the item size. Otherwise returns false and leaves the plan unchanged.
bool widen_items(IndexPlan<kMaxPlanOperands>& plan, int width, std::span<const OperandMemory> operands,
                 const OperandMemory& out);

// Resizes a plan of rank 1 to `count` items of one element.
IndexPlan<kMaxPlanOperands> single_items(IndexPlan<kMaxPlanOperands> plan, std::int64_t count);

// Keeps only the first kOperands operands of a plan.
template <int kOperands>
IndexPlan<kOperands> narrowed(const IndexPlan<kMaxPlanOperands>& plan) {
  static_assert(kOperands <= kMaxPlanOperands);
  IndexPlan<kOperands> out;
  out.rank = plan.rank;
  out.width = plan.width;
  out.wide = plan.wide;
  out.items = plan.items;
  out.rest = plan.rest;
  for (int d = 0; d < kMaxPlanDims; ++d) {
    out.sizes[d] = plan.sizes[d];
    out.dividers[d] = plan.dividers[d];
    for (int o = 0; o < kOperands; ++o) out.strides[o][d] = plan.strides[o][d];
  }
  for (int o = 0; o < kOperands; ++o) out.moves[o] = plan.moves[o];
  return out;
}

}  // namespace troupe
