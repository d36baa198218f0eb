#include "troupe/kernels/cuda/broadcast_plan.hpp"

#include <troupe/messages/error.hpp>

namespace troupe {

static_assert(kMaxPlanDims == kMaxRank);

IndexPlan<kMaxPlanOperands> plan_items(const Shape& out, std::span<const Shape> operands) {
  if (std::ssize(operands) > kMaxPlanOperands)
    fail(Code::internal, "{} operands cannot be broadcast at once", operands.size());
  IndexPlan<kMaxPlanOperands> plan;
  plan.rank = 0;
  std::array<std::int64_t, kMaxPlanOperands> steps;  // strides of the current dimension, as if not broadcast
  steps.fill(1);
  for (const Shape& operand : operands)
    if (operand.rank() > out.rank())
      invalid_argument("cannot broadcast {} to {}", operand.to_string(), out.to_string());
  for (int d = out.rank() - 1; d >= 0; --d) {
    std::array<std::int64_t, kMaxPlanOperands> strides{};
    for (std::size_t o = 0; o < operands.size(); ++o) {
      const int own = d - (out.rank() - operands[o].rank());
      const std::int64_t size = own >= 0 ? operands[o].dim(own) : 1;
      if (size != 1 && size != out.dim(d))
        invalid_argument("cannot broadcast {} to {}", operands[o].to_string(), out.to_string());
      strides[o] = size == 1 ? 0 : steps[o];
      steps[o] *= size;
    }
    if (out.dim(d) == 1) continue;
    const int last = plan.rank - 1;
    bool mergeable = last >= 0;
    for (std::size_t o = 0; mergeable && o < operands.size(); ++o)
      mergeable = strides[o] == plan.strides[o][last] * plan.sizes[last];
    if (mergeable) {
      plan.sizes[last] *= out.dim(d);
      continue;
    }
    plan.sizes[plan.rank] = out.dim(d);
    for (std::size_t o = 0; o < operands.size(); ++o) plan.strides[o][plan.rank] = strides[o];
    ++plan.rank;
  }
  if (plan.rank == 0) {  // one element
    plan.rank = 1;
    plan.sizes[0] = 1;
    for (std::size_t o = 0; o < operands.size(); ++o) plan.strides[o][0] = 1;
  }
  for (std::size_t o = 0; o < operands.size(); ++o) plan.moves[o] = plan.strides[o][0] != 0;
  count_items(plan);
  return plan;
}

bool widen_items(IndexPlan<kMaxPlanOperands>& plan, int width, std::span<const OperandMemory> operands,
                 const OperandMemory& out) {
  const auto count = static_cast<std::size_t>(width);
  // All other strides of an operand that moves along a row are multiples of its row length, and so of the width.
  if (plan.sizes[0] < width || (plan.rank > 1 && plan.sizes[0] % width != 0)) return false;
  if (!is_multiple(out.data, count * out.element_bytes)) return false;
  for (std::size_t o = 0; o < operands.size(); ++o)
    if (plan.moves[o] && !is_multiple(operands[o].data, count * operands[o].element_bytes)) return false;
  plan.rest = static_cast<int>(plan.sizes[0] % width);
  plan.sizes[0] /= width;
  for (std::size_t o = 0; o < operands.size(); ++o) plan.strides[o][0] *= width;
  plan.width = width;
  count_items(plan);
  return true;
}

IndexPlan<kMaxPlanOperands> single_items(IndexPlan<kMaxPlanOperands> plan, std::int64_t count) {
  for (auto& strides : plan.strides) strides[0] /= plan.width;
  plan.sizes[0] = count;
  plan.width = 1;
  plan.rest = 0;
  count_items(plan);
  return plan;
}

}  // namespace troupe
