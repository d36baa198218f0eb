// Locates the elements of an item.
#pragma once

#include <cuda_runtime.h>

#include <troupe/kernels/cuda/index_plan.hpp>

namespace troupe::device {

// Offsets of the first element of an item in each operand, in elements.
template <int kOperands>
struct Offsets {
  std::int64_t of[kOperands];
};

// Offset in one operand when 32-bit indexes do not suffice. Not inlined: 64-bit division is large code, and such
// tensors are rare.
__device__ __noinline__ inline std::int64_t locate_wide(const std::int64_t* sizes, const std::int64_t* strides,
                                                        int rank, std::int64_t item) {
  std::int64_t offset = 0;
  for (int d = 0; d < rank; ++d) {
    const std::int64_t quotient = d + 1 < rank ? item / sizes[d] : 0;
    offset += (item - quotient * sizes[d]) * strides[d];
    item = quotient;
  }
  return offset;
}

template <int kOperands, int kDims>
__device__ Offsets<kOperands> locate(const IndexPlan<kOperands, kDims>& plan, std::int64_t item) {
  Offsets<kOperands> offsets = {};
  if (plan.wide && plan.rank > 1) {
#pragma unroll
    for (int o = 0; o < kOperands; ++o) offsets.of[o] = locate_wide(plan.sizes, plan.strides[o], plan.rank, item);
    return offsets;
  }
  const int last = plan.rank - 1;
#pragma unroll 1
  for (int d = 0; d < last; ++d) {
    const auto whole = static_cast<std::uint32_t>(item);
    const std::uint32_t quotient = plan.dividers[d].quotient(whole);
    const std::int64_t index = whole - quotient * plan.dividers[d].divisor;
#pragma unroll
    for (int o = 0; o < kOperands; ++o) offsets.of[o] += index * plan.strides[o][d];
    item = quotient;
  }
#pragma unroll
  for (int o = 0; o < kOperands; ++o) offsets.of[o] += item * plan.strides[o][last];
  return offsets;
}

// Offset in one operand only.
template <int kOperands, int kDims>
__device__ std::int64_t locate_one(const IndexPlan<kOperands, kDims>& plan, std::int64_t item, int operand) {
  if (plan.wide && plan.rank > 1) return locate_wide(plan.sizes, plan.strides[operand], plan.rank, item);
  std::int64_t offset = 0;
  const int last = plan.rank - 1;
#pragma unroll 1
  for (int d = 0; d < last; ++d) {
    const auto whole = static_cast<std::uint32_t>(item);
    const std::uint32_t quotient = plan.dividers[d].quotient(whole);
    offset += static_cast<std::int64_t>(whole - quotient * plan.dividers[d].divisor) * plan.strides[operand][d];
    item = quotient;
  }
  return offset + item * plan.strides[operand][last];
}

}  // namespace troupe::device
