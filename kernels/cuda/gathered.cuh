// Items of rows, and the slices that indices address.
#pragma once

#include <cuda_runtime.h>

#include <troupe/kernels/cuda/element_types.cuh>
#include <troupe/kernels/cuda/fault.cuh>
#include <troupe/kernels/cuda/gather_launch.hpp>
#include <troupe/kernels/cuda/index_plan.cuh>
#include <troupe/kernels/cuda/launch.cuh>
#include <troupe/kernels/cuda/pack.cuh>

namespace troupe::device {

inline constexpr int kGatherUnroll = 4;

__device__ inline std::int64_t gathered_item(int u) {
  return static_cast<std::int64_t>(blockIdx.x) * (blockDim.x * kGatherUnroll) + u * blockDim.x + threadIdx.x;
}

struct RowPlace {
  std::int64_t row;
  std::int64_t column;
};

__device__ inline RowPlace row_place(const RowItems& items, std::int64_t item) {
  const std::int64_t row = items.wide ? item / items.per_row : items.divider.quotient(static_cast<std::uint32_t>(item));
  return {row, item - row * items.per_row};
}

__device__ inline std::int64_t index_at(const void* indices, DType type, std::int64_t i) {
  switch (type) {
    case DType::i8:
      return static_cast<const std::int8_t*>(indices)[i];
    case DType::u8:
      return static_cast<const std::uint8_t*>(indices)[i];
    case DType::i16:
      return static_cast<const std::int16_t*>(indices)[i];
    case DType::i32:
      return static_cast<const std::int32_t*>(indices)[i];
    default:
      return static_cast<const std::int64_t*>(indices)[i];
  }
}

// The slice at the address of slice i of the indices, or -1, reported if `reports`.
__device__ inline std::int64_t addressed(const SliceAddress& address, std::int64_t i, bool reports) {
  const Offsets<2> offsets = locate(address.plan, i);
  std::int64_t slice = offsets.of[0];
  for (int d = 0; d < address.depth; ++d) {
    const std::int64_t element = offsets.of[1] + d, size = address.sizes[d];
    const std::int64_t given = index_at(address.indices, address.index_type, element);
    const std::int64_t index = given < 0 && address.from_end ? given + size : given;
    if (index < 0 || index >= size) {
      if (reports && (given >= 0 || given < address.none)) report(address.fault, given, element, size);
      return -1;
    }
    slice += index * address.strides[d];
  }
  return slice;
}

// As with_sizes(), or 16 bytes.
template <class Fn>
cudaError_t with_pieces(int bytes, Fn fn) {
  if (bytes == 16) return fn.template operator()<uint4>();
  return with_sizes(static_cast<std::size_t>(bytes), fn);
}

}  // namespace troupe::device
