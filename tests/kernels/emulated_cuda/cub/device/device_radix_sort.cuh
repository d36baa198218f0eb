// CUB's sort, on the host. Stands in for the header of this name.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/kernels/emulated_cuda/cuda_runtime.h"
#include "tests/kernels/emulated_cuda/emulated_memory.hpp"

namespace cub {

struct DeviceRadixSort {
  // By bits [begin_bit, end_bit) of the keys; those of equal keys keep their order. Without `scratch`: how many bytes
  // it must have.
  template <class Key, class Value>
  static cudaError_t SortPairs(void* scratch, std::size_t& scratch_bytes, const Key* keys, Key* sorted_keys,
                               const Value* values, Value* sorted_values, int count, int begin_bit, int end_bit,
                               cudaStream_t) {
    if (!scratch) {
      scratch_bytes = 256;
      return cudaSuccess;
    }
    if (begin_bit < 0 || end_bit > static_cast<int>(8 * sizeof(Key)) || end_bit <= begin_bit)
      return cudaErrorInvalidValue;
    const troupe::emulated_cuda::MemoryAccess access;
    const auto digits = [&](int i) {
      return (static_cast<std::uint64_t>(keys[i]) & ((std::uint64_t{1} << end_bit) - 1)) >> begin_bit;
    };
    std::vector<int> order(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) order[static_cast<std::size_t>(i)] = i;
    std::ranges::stable_sort(order, {}, digits);
    for (int i = 0; i < count; ++i) {
      sorted_keys[i] = keys[order[static_cast<std::size_t>(i)]];
      sorted_values[i] = values[order[static_cast<std::size_t>(i)]];
    }
    return cudaSuccess;
  }
};

}  // namespace cub
