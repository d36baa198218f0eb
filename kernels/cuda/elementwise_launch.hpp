// The elementwise families: interface between host and device code.
#pragma once

#include <cstddef>
#include <cstdint>

#include <troupe/kernels/cuda/index_plan.hpp>

namespace troupe {

// Two broadcast operands and the result. The plan's width is 1 or the elements in 16 bytes of an operand; the plan has
// at least one element.
struct BinaryArguments {
  const void* a = nullptr;
  const void* b = nullptr;
  void* out = nullptr;
  IndexPlan<2> plan;
};

}  // namespace troupe
