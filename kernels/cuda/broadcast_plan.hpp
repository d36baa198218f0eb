// Makes IndexPlans from shapes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <troupe/kernels/cuda/index_plan.hpp>
#include <troupe/messages/shape.hpp>

namespace troupe {

// Where an operand, or the result, lies.
struct OperandMemory {
  const void* data = nullptr;
  std::size_t element_bytes = 1;
};

inline constexpr int kMaxPlanOperands = 16;

// The merged dimensions of operands of these shapes, which broadcast to `out`. Throws invalid_argument if one does not.
// Items of one element.
IndexPlan<kMaxPlanOperands> plan_items(const Shape& out, std::span<const Shape> operands);

// Turns items of one element into items of `width` (a power of two), if all of them lie at addresses that are multiples
// of their size: each operand's that moves, and the result's. False if they do not; the plan is as it was then.
bool widen_items(IndexPlan<kMaxPlanOperands>& plan, int width, std::span<const OperandMemory> operands,
                 const OperandMemory& out);

// The plan, whose rank is 1, for `count` items of one element.
IndexPlan<kMaxPlanOperands> single_items(IndexPlan<kMaxPlanOperands> plan, std::int64_t count);

// The first operands of a plan.
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
