// Rows by their indices.
#pragma once

#include <troupe/devices/device.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// Rows of `table` (its dimension 0): shape indices.shape + table.shape[1:]. `indices` are of any integer
// dtype. Throws invalid_argument, naming the index, for one that is no row.
Tensor gather(Device& device, const Tensor& table, const Tensor& indices);

// Zeros of `shape`, and values[i] added to row indices[i], in order. indices: i64 [n]; values: [n] +
// shape[1:]. Throws invalid_argument, naming the index, for one that is no row.
Tensor scatter_add_rows(Device& device, const Tensor& indices, const Tensor& values, const Shape& shape);

}  // namespace troupe
