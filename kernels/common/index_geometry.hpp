// Slices and elements addressed by indices (GatherND, ScatterND, GatherElements, ScatterElements), for all device
// types.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include <troupe/kernels/common/scatter_combine.hpp>
#include <troupe/messages/shape.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// Slices addressed by vectors along the last dimension of `indices`.
struct SliceGeometry {
  // Throws invalid_argument, naming `op`, for shapes that do not fit.
  SliceGeometry(std::string_view op, const Shape& x, const Shape& indices, std::int64_t batch_dims);

  Shape result;               // of a gather
  std::int64_t count, inner;  // slices, and elements of each
  std::int64_t batches, per_batch;
  int depth;                                              // indices of a slice
  std::int64_t batch_stride;                              // elements of x
  std::array<std::int64_t, kMaxRank> sizes{}, strides{};  // of the dimensions they address
};

// Throws invalid_argument, naming `op`, unless `indices` fit x: they may be longer along the axis only.
void check_element_indices(std::string_view op, const Shape& x, const Shape& indices, int axis);

// Throws invalid_argument, naming `op`, unless updates of `data` have that shape.
void check_updates(std::string_view op, const Tensor& data, const Tensor& updates, const Shape& shape);

}  // namespace troupe
