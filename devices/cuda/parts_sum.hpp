// What a GPU adds up of an all-reduce: the ranks' tensors are there, one after the other, and each element is summed in
// the order that devices/collective/collective.hpp fixes. For host and device code.
#pragma once

#include <cstdint>

#include <troupe/messages/dtype.hpp>

namespace troupe {

// Rank r's elements begin at `others` + r * stride, all of them the same elements of the tensor. Those of the rank that
// is summed first may lie elsewhere: at `first`, and then the others follow in the order in which they are added,
// without it.
struct PartsSum {
  DType dtype = DType::invalid;
  bool maximum = false;       // instead of the sum
  std::uint32_t divisor = 1;  // of a mean: in the last addition
  std::uint32_t ranks = 1;
  std::int64_t elements = 0;
  std::int64_t stride = 0;    // elements from one rank's to the next
  std::int64_t per_part = 0;  // part p, of so many elements, begins with rank p; 0: all begins with `first`
  const void* first = nullptr;
  const void* others = nullptr;
  void* out = nullptr;

  // Where in `others` the k-th to be added of element i lies, from 0 on; -1: in `first`, at i.
  constexpr std::int64_t place(std::uint32_t k, std::int64_t i) const {
    if (per_part == 0) return k == 0 ? -1 : (k - 1) * stride + i;
    return (i / per_part + k) % ranks * stride + i;
  }
};

}  // namespace troupe
