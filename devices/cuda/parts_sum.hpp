// The summation of an all-reduce on a GPU: the ranks' tensors are in memory one after the other, and each element is
// summed in the order defined in devices/collective/collective.hpp. For host and device code.
#pragma once

#include <cstdint>

#include <troupe/messages/dtype.hpp>

namespace troupe {

// Rank r's elements begin at `others` + r * stride; all are the same elements of the tensor. The rank that is summed
// first may be elsewhere, at `first`; then `others` holds the remaining ranks in the order of addition.
struct PartsSum {
  DType dtype = DType::invalid;
  bool maximum = false;       // instead of the sum
  std::uint32_t divisor = 1;  // of a mean: applied in the last addition
  std::uint32_t ranks = 1;
  std::int64_t elements = 0;
  std::int64_t stride = 0;    // elements from one rank's to the next
  std::int64_t per_part = 0;  // elements per part; part p starts with rank p; 0: all start with `first`
  const void* first = nullptr;
  const void* others = nullptr;
  void* out = nullptr;

  // Index in `others` of the k-th addend of element i, from 0 on; -1: in `first`, at i.
  constexpr std::int64_t place(std::uint32_t k, std::int64_t i) const {
    if (per_part == 0) return k == 0 ? -1 : (k - 1) * stride + i;
    return (i / per_part + k) % ranks * stride + i;
  }
};

}  // namespace troupe
