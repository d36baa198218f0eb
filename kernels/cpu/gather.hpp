// Rows by index.
#pragma once

#include <troupe/devices/device.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// Returns rows of `table` (dimension 0): shape indices.shape + table.shape[1:]. `indices` may be of any integer dtype.
// Throws invalid_argument, naming the index, if it is out of range.
Tensor gather(Device& device, const Tensor& table, const Tensor& indices);

// Returns zeros of `shape` with values[i] added to row indices[i], in order. indices: i64 [n]; values: [n] + shape[1:].
// Throws invalid_argument, naming the index, if it is out of range.
Tensor scatter_add_rows(Device& device, const Tensor& indices, const Tensor& values, const Shape& shape);

}  // namespace troupe
