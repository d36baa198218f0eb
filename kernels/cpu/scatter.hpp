// Updates of elements by index. Indices are i32 or i64; negative ones count from the end. Duplicates count in the order
// of the indices, whatever the number of threads. All throw invalid_argument, naming the index, if one is out of range.
#pragma once

#include <cstddef>
#include <cstdint>

#include <troupe/devices/device.hpp>
#include <troupe/kernels/common/index_geometry.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// data[indices[..., :]] = combine(that slice, updates[...]), in place.
void scatter_nd(Device& device, Tensor& data, const Tensor& indices, const Tensor& updates, std::int64_t batch_dims,
                ScatterCombine combine);

// data[p with indices[p] as its coordinate along the axis] = combine(that element, updates[p]), in place.
void scatter_elements(Device& device, Tensor& data, const Tensor& indices, const Tensor& updates, int axis,
                      ScatterCombine combine);

// Columns [first, last) of slices of `width` elements.
struct SliceColumns {
  std::int64_t first, last, width;
};
// Combines the slice at `data` + offsets[i], which is in elements, with slice i of `updates`, i < count, in order.
using CombineFn = void (*)(std::byte* data, const std::int64_t* offsets, std::int64_t count, const std::byte* updates,
                           SliceColumns columns);
// Throws unimplemented for dtypes without arithmetic, and for `none`, which combines nothing.
CombineFn combine_function(DType dtype, ScatterCombine combine);

}  // namespace troupe
