// Moving elements: one strided copy that slices, transposes, tiles, broadcasts and joins tensors of any dtype. The copy
// and make_zeros() are defined once per kernel library: kernels/cpu/movement.cpp, kernels/cuda/movement.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include <troupe/devices/device.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// One loop of a nested copy, outermost first. Strides are in elements.
struct CopyDim {
  std::int64_t size;
  std::int64_t source_stride;  // 0: repeats the same elements
  std::int64_t target_stride;
};

// Maximum loops of one copy: a tiled tensor has two per dimension.
inline constexpr std::size_t kMaxCopyDims = 2 * kMaxRank;

// Loops of a copy, without those of size 1, and with neighbours merged where both sides are dense across them.
struct CopyLoops {
  std::array<CopyDim, kMaxCopyDims> dims;
  std::size_t rank = 0;  // >= 1
  std::int64_t total = 1;
};
CopyLoops merge_loops(std::span<const CopyDim> dims);

// target[target_offset + sum i*target_stride] = source[source_offset + sum i*source_stride], for every index. Offsets
// are in elements. The caller guarantees that all elements lie inside both tensors and that no target element is
// written twice.
void strided_copy(Device& device, const Tensor& source, std::int64_t source_offset, Tensor& target,
                  std::int64_t target_offset, std::span<const CopyDim> dims);

// Stride along each dimension of a dense tensor, in elements.
std::array<std::int64_t, kMaxRank> dense_strides(const Shape& shape);

// `x` broadcast to `shape`. Throws invalid_argument if that is impossible.
Tensor broadcast_to(Device& device, const Tensor& x, const Shape& shape);

// A tensor of zeros; empty strings for a string dtype.
Tensor make_zeros(Device& device, DType dtype, const Shape& shape);

// Resolves an axis attribute; negative counts from the end. Throws invalid_argument.
int checked_axis(std::int64_t axis, int rank);

}  // namespace troupe
