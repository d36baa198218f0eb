// Slicing, joining and rearranging tensors of any dtype. Functions return a new tensor unless marked "view", and throw
// invalid_argument for mismatched sizes.
#pragma once

#include <span>
#include <vector>

#include <troupe/kernels/common/movement.hpp>

namespace troupe {

using Dims = std::span<const std::int64_t>;

// Dimension d of the result is dimension perm[d] of x; an empty perm reverses all dimensions.
Tensor transpose(Device& device, const Tensor& x, Dims perm);
// All dimensions but `axis` must agree.
Tensor concat(Device& device, std::span<const Tensor> parts, std::int64_t axis);
// Parts of the given sizes along `axis`; the sizes must add up to that dimension.
std::vector<Tensor> split(Device& device, const Tensor& x, std::int64_t axis, Dims sizes);
// The `count` parts of size 1 along `axis`, without that dimension.
std::vector<Tensor> unstack(Device& device, const Tensor& x, std::int64_t axis, std::size_t count);
// Elements begin[d] .. begin[d] + size[d]; a size of -1 goes to the end.
Tensor slice(Device& device, const Tensor& x, Dims begin, Dims size);
// Zeros of `shape` with dy at `begin`.
Tensor slice_grad(Device& device, const Tensor& dy, const Shape& shape, Dims begin);
// x with `before` and `after` elements around it, each a copy of the single element of `value`.
Tensor pad(Device& device, const Tensor& x, Dims before, Dims after, const Tensor& value);
// x repeated multiples[d] times along each dimension.
Tensor tile(Device& device, const Tensor& x, Dims multiples);

// A view of x as `wanted`, in which one dimension may be -1.
Tensor reshape(const Tensor& x, Dims wanted);
// A view without the dimensions `axes`, which must be 1; if `axes` is empty, without all dimensions that are 1.
Tensor squeeze(const Tensor& x, Dims axes);
// A view with a dimension of 1 before dimension `axis`; -1 appends it.
Tensor expand_dims(const Tensor& x, std::int64_t axis);

// The values of an i64 vector.
Dims checked_dims(const Tensor& vector);
// The shape argument of Fill.
Shape checked_shape(Dims dims);
// Sizes of `count` equal parts of dimension `axis`.
std::vector<std::int64_t> equal_parts(const Shape& shape, std::int64_t axis, std::size_t count);

}  // namespace troupe
