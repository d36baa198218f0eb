// Slicing, joining and rearranging tensors of any dtype. Functions return a new tensor unless marked "view", and throw
// invalid_argument for mismatched sizes.
#pragma once

#include <span>
#include <string_view>
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
// A view of x as `wanted`, in which one dimension may be -1. If `copy_zeros`, 0 takes the dimension of x at its place.
Tensor reshape(const Tensor& x, Dims wanted, bool copy_zeros = false);
// A view without the dimensions `axes`, which must be 1; if `axes` is empty, without all dimensions that are 1.
Tensor squeeze(const Tensor& x, Dims axes);
// A view with dimensions of 1 at `axes` of the result.
Tensor expand_dims(const Tensor& x, Dims axes);

// The values of an i64 vector.
Dims checked_dims(const Tensor& vector);
// The value of an i64 scalar or of a vector of one element.
std::int64_t checked_scalar(std::string_view what, const Tensor& t);
// A shape given as a tensor.
Shape checked_shape(Dims dims);
// Those of an i64 vector of `count` elements.
Dims checked_sizes(const Tensor& vector, std::size_t count);
// Sizes of `count` equal parts of dimension `axis`.
std::vector<std::int64_t> equal_parts(const Shape& shape, std::int64_t axis, std::size_t count);

}  // namespace troupe
