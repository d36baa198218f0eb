// Elements by index. Indices are i32 or i64. All throw invalid_argument, naming the index, if one is out of range, and
// for shapes that do not fit.
#pragma once

#include <troupe/devices/device.hpp>
#include <troupe/kernels/common/gather_geometry.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// Slices of `table`, of any dtype, along an axis: shape table[:axis] + indices.shape[batch_dims:] + table[axis+1:].
Tensor gather(Device& device, const Tensor& table, const Tensor& indices, const GatherAttributes& attributes);
// The sum of gradients dy for each slice, in order: the gradient of gather() for a table of `shape`.
Tensor gather_grad(Device& device, const Tensor& dy, const Tensor& indices, const Shape& shape,
                   const GatherAttributes& attributes);

// Slices x[indices[..., :]]: shape indices.shape[:-1] + x.shape[batch_dims+k:], where k is the last dimension of
// indices.
Tensor gather_nd(Device& device, const Tensor& x, const Tensor& indices, std::int64_t batch_dims);

// y[p] = x[p with indices[p] as its coordinate along the axis]; indices must fit x in the other dimensions.
Tensor gather_elements(Device& device, const Tensor& x, const Tensor& indices, int axis);

// Returns zeros of `shape` with values[i] added to row indices[i], in order. indices: i64 [n]; values: [n] + shape[1:].
Tensor scatter_add_rows(Device& device, const Tensor& indices, const Tensor& values, const Shape& shape);

}  // namespace troupe
