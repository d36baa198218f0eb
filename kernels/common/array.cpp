#include "troupe/kernels/common/array.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

std::size_t rank_of(const Shape& shape) { return static_cast<std::size_t>(shape.rank()); }

void check_count(std::string_view what, Dims dims, const Shape& shape) {
  if (dims.size() != rank_of(shape))
    invalid_argument("{} has {} values for a tensor of shape {}", what, dims.size(), shape.to_string());
}

// Copies a box of shape `box` from `from_begin` in `source` to `to_begin` in `target`; empty begins mean 0.
void copy_box(Device& device, const Tensor& source, Dims from_begin, Tensor& target, Dims to_begin, const Shape& box) {
  const auto from = dense_strides(source.shape()), to = dense_strides(target.shape());
  std::array<CopyDim, kMaxRank> dims;
  std::int64_t from_offset = 0, to_offset = 0;
  if (box.num_elements() == 0) return;
  for (std::size_t d = 0; d < rank_of(box); ++d) {
    dims[d] = {box.dim(static_cast<int>(d)), from[d], to[d]};
    if (!from_begin.empty()) from_offset += from_begin[d] * from[d];
    if (!to_begin.empty()) to_offset += to_begin[d] * to[d];
  }
  strided_copy(device, source, from_offset, target, to_offset, {dims.data(), rank_of(box)});
}

std::array<std::int64_t, kMaxRank> at_axis(int axis, std::int64_t value) {
  std::array<std::int64_t, kMaxRank> begin{};
  begin[static_cast<std::size_t>(axis)] = value;
  return begin;
}

}  // namespace

Tensor transpose(Device& device, const Tensor& x, Dims perm) {
  const std::size_t rank = rank_of(x.shape());
  std::array<std::int64_t, kMaxRank> order{};
  for (std::size_t d = 0; d < rank; ++d) order[d] = static_cast<std::int64_t>(rank - 1 - d);
  if (!perm.empty()) {
    check_count("perm", perm, x.shape());
    std::array<bool, kMaxRank> seen{};
    for (std::size_t d = 0; d < rank; ++d) {
      const auto axis = static_cast<std::size_t>(checked_axis(perm[d], x.shape().rank()));
      if (std::exchange(seen[axis], true)) invalid_argument("perm lists dimension {} twice", axis);
      order[d] = static_cast<std::int64_t>(axis);
    }
  }
  Shape shape = x.shape();
  for (std::size_t d = 0; d < rank; ++d) shape.set_dim(static_cast<int>(d), x.shape().dim(static_cast<int>(order[d])));
  Tensor out = device.allocator().tensor(x.dtype(), shape);
  const auto from = dense_strides(x.shape()), to = dense_strides(shape);
  std::array<CopyDim, kMaxRank> dims;
  for (std::size_t d = 0; d < rank; ++d)
    dims[d] = {shape.dim(static_cast<int>(d)), from[static_cast<std::size_t>(order[d])], to[d]};
  strided_copy(device, x, 0, out, 0, {dims.data(), rank});
  return out;
}

Tensor concat(Device& device, std::span<const Tensor> parts, std::int64_t axis_attribute) {
  if (parts.empty()) invalid_argument("Concat needs at least one tensor");
  Shape shape = parts[0].shape();
  const int axis = checked_axis(axis_attribute, shape.rank());
  std::int64_t total = 0;
  for (const Tensor& part : parts) {
    Shape same = part.shape();
    if (same.rank() == shape.rank()) same.set_dim(axis, shape.dim(axis));
    if (same != shape || part.dtype() != parts[0].dtype())
      invalid_argument("Concat on axis {}: {}{} does not match {}{}", axis, name(part.dtype()),
                       part.shape().to_string(), name(parts[0].dtype()), parts[0].shape().to_string());
    if (__builtin_add_overflow(total, part.shape().dim(axis), &total))
      invalid_argument("Concat: the result is too large");
  }
  shape.set_dim(axis, total);
  Tensor out = device.allocator().tensor(parts[0].dtype(), shape);
  std::int64_t at = 0;
  for (const Tensor& part : parts) {
    const auto begin = at_axis(axis, at);
    copy_box(device, part, {}, out, {begin.data(), rank_of(shape)}, part.shape());
    at += part.shape().dim(axis);
  }
  return out;
}

std::vector<Tensor> split(Device& device, const Tensor& x, std::int64_t axis_attribute, Dims sizes) {
  const int axis = checked_axis(axis_attribute, x.shape().rank());
  std::int64_t left = x.shape().dim(axis);
  for (std::int64_t size : sizes) {
    if (size < 0 || size > left)
      invalid_argument("sizes do not add up to dimension {} of {}", axis, x.shape().to_string());
    left -= size;
  }
  if (left != 0)
    invalid_argument("sizes leave {} elements of dimension {} of {} over", left, axis, x.shape().to_string());
  std::vector<Tensor> parts;
  std::int64_t at = 0;
  if (axis == 0 && x.space().on_host()) {  // in place: packs of parameters have a hundred parts
    for (std::int64_t size : sizes) {
      parts.push_back(x.rows(at, at + size));
      at += size;
    }
    return parts;
  }
  for (std::int64_t size : sizes) {
    Shape shape = x.shape();
    shape.set_dim(axis, size);
    Tensor part = device.allocator().tensor(x.dtype(), shape);
    const auto begin = at_axis(axis, at);
    copy_box(device, x, {begin.data(), rank_of(shape)}, part, {}, shape);
    parts.push_back(std::move(part));
    at += size;
  }
  return parts;
}

std::vector<Tensor> unstack(Device& device, const Tensor& x, std::int64_t axis, std::size_t count) {
  const Shape& shape = x.shape();
  const int at = checked_axis(axis, shape.rank());
  if (shape.dim(at) != static_cast<std::int64_t>(count))
    invalid_argument("Unstack: dimension {} of {} is not {}", at, shape.to_string(), count);
  std::vector<Tensor> parts = split(device, x, at, equal_parts(shape, at, count));
  for (Tensor& part : parts) part = part.reshaped(shape.without(at));
  return parts;
}

Tensor reshape(const Tensor& x, Dims wanted, bool copy_zeros) {
  if (wanted.size() > static_cast<std::size_t>(kMaxRank)) return x.reshaped(Shape(wanted));  // throws
  std::array<std::int64_t, kMaxRank> copied;
  std::ranges::copy(wanted, copied.begin());
  const std::span<std::int64_t> dims(copied.data(), wanted.size());
  if (copy_zeros)
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (dims[d] != 0) continue;
      if (d >= rank_of(x.shape()))
        invalid_argument("Reshape: dimension {} of the shape is 0, but {} has no such dimension", d,
                         x.shape().to_string());
      dims[d] = x.shape().dim(static_cast<int>(d));
    }
  const auto open = std::ranges::find(dims, -1);
  if (open != dims.end()) {
    *open = 1;
    if (std::ranges::any_of(dims, [](std::int64_t d) { return d < 0; }))
      invalid_argument("Reshape: only one dimension may be -1, and no other may be negative");
    const std::int64_t known = Shape(dims).num_elements();
    if (known == 0 || x.num_elements() % known != 0)
      invalid_argument("Reshape: {} elements are not divisible by {}, the product of the other dimensions",
                       x.num_elements(), known);
    *open = x.num_elements() / known;
  }
  return x.reshaped(Shape(dims));
}

Tensor squeeze(const Tensor& x, Dims axes) {
  std::array<bool, kMaxRank> drop{};
  for (std::int64_t axis : axes) {
    const int d = checked_axis(axis, x.shape().rank());
    if (x.shape().dim(d) != 1) invalid_argument("Squeeze: dimension {} of {} is not 1", d, x.shape().to_string());
    if (std::exchange(drop[static_cast<std::size_t>(d)], true)) invalid_argument("Squeeze: axis {} is given twice", d);
  }
  Shape shape;
  for (int d = 0; d < x.shape().rank(); ++d)
    if (axes.empty() ? x.shape().dim(d) != 1 : !drop[static_cast<std::size_t>(d)])
      shape = shape.with_appended(x.shape().dim(d));
  return x.reshaped(shape);
}

Tensor expand_dims(const Tensor& x, Dims axes) {
  const std::size_t rank = rank_of(x.shape()) + axes.size();
  if (axes.size() > kMaxRank || rank > kMaxRank)
    invalid_argument("ExpandDims: {} axes for {}; a shape has at most {} dimensions", axes.size(),
                     x.shape().to_string(), kMaxRank);
  std::array<bool, kMaxRank> added{};
  for (std::int64_t axis : axes) {
    const int d = checked_axis(axis, static_cast<int>(rank));
    if (std::exchange(added[static_cast<std::size_t>(d)], true))
      invalid_argument("ExpandDims: axis {} is given twice", d);
  }
  std::array<std::int64_t, kMaxRank> dims{};
  int next = 0;
  for (std::size_t d = 0; d < rank; ++d) dims[d] = added[d] ? 1 : x.shape().dim(next++);
  return x.reshaped(Shape(std::span<const std::int64_t>(dims.data(), rank)));
}

Dims checked_dims(const Tensor& vector) {
  if (vector.shape().rank() != 1) invalid_argument("a shape must be a vector, not {}", vector.shape().to_string());
  return vector.values<std::int64_t>();
}

Shape checked_shape(Dims dims) {
  if (std::ranges::any_of(dims, [](std::int64_t d) { return d < 0; })) invalid_argument("a dimension is negative");
  return Shape(dims);
}

std::int64_t checked_scalar(std::string_view what, const Tensor& t) {
  if (t.num_elements() != 1) invalid_argument("{} must be a scalar, not {}", what, t.shape().to_string());
  return t.item<std::int64_t>();
}

Dims checked_sizes(const Tensor& vector, std::size_t count) {
  const Dims sizes = checked_dims(vector);
  if (sizes.size() != count) invalid_argument("there are {} sizes for {} parts", sizes.size(), count);
  return sizes;
}

std::vector<std::int64_t> equal_parts(const Shape& shape, std::int64_t axis, std::size_t count) {
  const std::int64_t size = shape.dim(checked_axis(axis, shape.rank()));
  const auto n = static_cast<std::int64_t>(count);
  if (n < 1 || size % n != 0)
    invalid_argument("Split: dimension {} of {} is not divisible into {} equal parts", axis, shape.to_string(), n);
  return std::vector<std::int64_t>(count, size / n);
}

}  // namespace troupe
