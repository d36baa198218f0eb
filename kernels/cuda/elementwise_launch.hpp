// Between the host and the device parts of the elementwise families.
#pragma once

#include <cstddef>
#include <cstdint>

#include <troupe/kernels/cuda/index_plan.hpp>

namespace troupe {

// Two operands that are broadcast, and the result. The plan's width is that of 16 bytes of an operand, or 1; it has no
// less than one element.
struct BinaryArguments {
  const void* a = nullptr;
  const void* b = nullptr;
  void* out = nullptr;
  IndexPlan<2> plan;
};

}  // namespace troupe
