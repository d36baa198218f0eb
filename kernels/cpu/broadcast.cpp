#include "troupe/kernels/cpu/broadcast.hpp"

#include <troupe/messages/error.hpp>

namespace troupe {

Shape broadcast_all(std::span<const Shape> operands) {
  Shape out = operands.front();
  for (const Shape& shape : operands.subspan(1)) out = broadcast(out, shape);
  return out;
}

BroadcastPlan plan_broadcast(const Shape& out, std::span<const Shape> operands) {
  BroadcastPlan plan;
  std::array<std::int64_t, kMaxOperands> steps;  // strides along the current dimension if not broadcast
  steps.fill(1);
  for (const Shape& operand : operands)
    if (operand.rank() > out.rank())
      invalid_argument("cannot broadcast {} to {}", operand.to_string(), out.to_string());

  // Goes from the innermost dimension outwards; `plan` is built in that order and reversed at the end.
  std::size_t rank = 0;
  for (int d = out.rank() - 1; d >= 0; --d) {
    std::array<std::int64_t, kMaxOperands> strides{};
    for (std::size_t o = 0; o < operands.size(); ++o) {
      const int own = d - (out.rank() - operands[o].rank());
      const std::int64_t size = own >= 0 ? operands[o].dim(own) : 1;
      if (size != 1 && size != out.dim(d))
        invalid_argument("cannot broadcast {} to {}", operands[o].to_string(), out.to_string());
      strides[o] = size == 1 ? 0 : steps[o];
      steps[o] *= size;
    }
    if (out.dim(d) == 1) continue;
    bool mergeable = rank > 0;
    for (std::size_t o = 0; mergeable && o < operands.size(); ++o)
      mergeable = strides[o] == plan.strides[o][rank - 1] * plan.dims[rank - 1];
    if (mergeable) {
      plan.dims[rank - 1] *= out.dim(d);
    } else {
      plan.dims[rank] = out.dim(d);
      for (std::size_t o = 0; o < operands.size(); ++o) plan.strides[o][rank] = strides[o];
      ++rank;
    }
  }
  if (rank == 0) {
    plan.dims[0] = 1;
    for (std::size_t o = 0; o < operands.size(); ++o) plan.strides[o][0] = 1;
    rank = 1;
  }
  std::reverse(plan.dims.begin(), plan.dims.begin() + static_cast<std::ptrdiff_t>(rank));
  for (auto& strides : plan.strides) std::reverse(strides.begin(), strides.begin() + static_cast<std::ptrdiff_t>(rank));
  plan.rank = static_cast<int>(rank);
  return plan;
}

}  // namespace troupe
