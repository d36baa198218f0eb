#include "troupe/graph/builder/array.hpp"

#include <cstring>
#include <limits>

#include <troupe/graph/builder/math.hpp>

namespace troupe {
namespace {

// Also of bool, and the empty string for 0.
Tensor element_of(DType dtype, double value) {
  if (dtype == DType::boolean) return Tensor::scalar(value != 0);
  if (dtype == DType::string && value == 0) return Tensor(dtype, Shape{});
  return scalar_of(dtype, value);
}

}  // namespace

Output reshape(Output x, const Shape& shape, Name name) {
  if (!x.valid()) invalid_argument("reshape: x is not a tensor");
  if (!shape.has_rank()) invalid_argument("reshape: the new shape must have a known rank");
  const Shape count{shape.rank()};
  return reshape(x, constant(*x.graph, Tensor::of<std::int64_t>(count, shape.dims())), std::move(name));
}
Output reshape(Output x, Output shape, Name name) {
  return add_op("Reshape", {std::move(x), std::move(shape)}, {}, std::move(name));
}
Output reshape_copying_zeros(Output x, IntegersArg shape, Name name) {
  return add_op("Reshape", {x, shape.in(x)}, {{"copy_zeros", true}}, std::move(name));
}
Output reshape_like(Output x, Output like, Name name) {
  return add_op("ReshapeLike", {std::move(x), std::move(like)}, {}, std::move(name));
}
Output flatten(Output x, std::int64_t axis, Name name) {
  if (!x.valid()) invalid_argument("flatten: x is not a tensor");
  const Shape& shape = x.shape();
  if (axis < 0 && !shape.has_rank()) invalid_argument("flatten: axis {} needs a known rank", axis);
  if (shape.has_rank() && (axis < -shape.rank() || axis > shape.rank()))
    invalid_argument("flatten: axis {} is out of range for {}", axis, shape.to_string());
  const std::int64_t at = axis < 0 ? axis + shape.rank() : axis;
  if (at == 0) return reshape(x, Shape{1, kUnknown}, std::move(name));
  if (shape.has_rank() && at == shape.rank()) return reshape(x, Shape{kUnknown, 1}, std::move(name));
  const Shape front = shape.has_rank() ? shape.sub(0, static_cast<int>(at)) : shape;
  if (front.has_rank() && front.fully_known() && front.num_elements() > 0)
    return reshape(x, Shape{front.num_elements(), kUnknown}, std::move(name));
  // Both from the shape: -1 is not defined where the other dimension is 0.
  const Output dims = shape_of(x);
  const auto product = [&](Output sizes) { return reshape(element_count(fill(sizes, scalar_like(x, 0))), Shape{1}); };
  const Output rows = product(strided_slice(dims, 0, at));
  const Output columns = product(strided_slice(dims, at, std::numeric_limits<std::int64_t>::max()));
  return reshape(x, concat({rows, columns}, 0), std::move(name));
}
Output transpose(Output x, Integers perm, Name name) {
  return add_op("Transpose", {std::move(x)}, {{"perm", std::move(perm)}}, std::move(name));
}
Output squeeze(Output x, IntegersArg axes, Name name) {
  return add_op("Squeeze", {x, axes.in(x)}, {}, std::move(name));
}
Output expand_dims(Output x, IntegersArg axes, Name name) {
  return add_op("ExpandDims", {x, axes.in(x)}, {}, std::move(name));
}
Output broadcast_to(Output x, IntegersArg shape, Name name) {
  return add_op("BroadcastTo", {x, shape.in(x)}, {}, std::move(name));
}
Outputs meshgrid(const Outputs& xs) {
  if (xs.empty()) return {};
  Outputs sizes, out;
  for (const Output& x : xs) sizes.push_back(shape_of(x));
  const Output shape = concat(sizes, 0);
  const auto rank = std::ssize(xs);
  for (std::int64_t i = 0; i < rank; ++i) {
    Integers dims(static_cast<std::size_t>(rank), 1);
    dims[static_cast<std::size_t>(i)] = -1;
    out.push_back(broadcast_to(reshape(xs[static_cast<std::size_t>(i)], Shape(dims)), shape));
  }
  return out;
}
Output concat(const Outputs& xs, std::int64_t axis, Name name) {
  return add_op("Concat", xs, {{"axis", axis}}, std::move(name));
}
Output stack(const Outputs& xs, std::int64_t axis, Name name) {
  return add_op("Stack", xs, {{"axis", axis}}, std::move(name));
}
Outputs split(Output x, std::int64_t axis, std::int64_t parts, Name name) {
  return add_outputs("Split", {x}, {{"axis", axis}, {"N", parts}}, std::move(name));
}
Outputs split_sizes(Output x, std::int64_t axis, IntegersArg sizes, Name name) {
  const std::int64_t parts = sizes.count();
  if (parts == kUnknown) invalid_argument("split_sizes: the number of sizes must be known");
  return add_outputs("SplitSizes", {x, sizes.in(x)}, {{"axis", axis}, {"N", parts}}, std::move(name));
}
Outputs unstack(Output x, std::int64_t axis, Name name) {
  if (!x.valid()) invalid_argument("unstack: x is not a tensor");
  const Shape& shape = x.shape();
  if (!shape.has_rank() || axis < -shape.rank() || axis >= shape.rank() || shape[static_cast<int>(axis)] == kUnknown)
    invalid_argument("unstack: the size of {} along axis {} is unknown", shape.to_string(), axis);
  return add_outputs("Unstack", {x}, {{"axis", axis}, {"N", shape[static_cast<int>(axis)]}}, std::move(name));
}
Output slice(Output x, IntegersArg begin, IntegersArg size, Name name) {
  return add_op("Slice", {x, begin.in(x), size.in(x)}, {}, std::move(name));
}
Output pad_list(Output x, IntegersArg pads, PadOptions options) {
  const Output value =
      options.value_tensor.valid() ? options.value_tensor : constant(*x.graph, element_of(x.dtype(), options.value));
  return add_op("Pad", {x, pads.in(x), value}, {{"mode", std::string(troupe::name(options.mode))}},
                std::move(options.name));
}
Output pad(Output x, const Integers& before, const Integers& after, PadOptions options) {
  if (before.size() != after.size())
    invalid_argument("pad: {} numbers of elements before x, but {} after it", before.size(), after.size());
  Integers pads = before;
  pads.insert(pads.end(), after.begin(), after.end());
  return pad_list(x, std::move(pads), std::move(options));
}
Output tile(Output x, IntegersArg multiples, Name name) {
  return add_op("Tile", {x, multiples.in(x)}, {}, std::move(name));
}
Output one_hot(Output indices, IntegersArg depth, OneHotOptions options) {
  const Output size = depth.scalar_in(indices);
  if (options.values.valid())
    return add_op("OneHot", {indices, size, options.values}, {{"axis", options.axis}}, std::move(options.name));
  Tensor values(options.dtype, Shape{2});
  for (const bool on : {false, true}) {
    const Tensor one = element_of(options.dtype, on ? options.on : options.off);
    std::memcpy(values.mutable_raw() + (on ? one.num_bytes() : 0), one.raw(), one.num_bytes());
  }
  return add_op("OneHot", {indices, size, constant(*indices.graph, values)}, {{"axis", options.axis}},
                std::move(options.name));
}
Output fill(Output dims, Output value, Name name) {
  return add_op("Fill", {std::move(dims), std::move(value)}, {}, std::move(name));
}
Output range(Output start, Output limit, Output delta, Name name) {
  return add_op("Range", {std::move(start), std::move(limit), std::move(delta)}, {}, std::move(name));
}

Output as_scalar(Output x, Name name) {
  return x.shape().has_rank() && x.shape().is_scalar() ? x : reshape(x, Shape{}, std::move(name));
}

Output range(Output limit, Name name) {
  const Output first = scalar_like(limit, 0);
  const Output step = scalar_like(limit, 1);
  return range(first, limit, step, std::move(name));
}

Output linspace(Output start, Output stop, IntegersArg count, Name name) {
  const Output size = count.scalar_in(start);
  const Output one = constant<std::int64_t>(*start.graph, 1);
  const Output last = size - one;
  const Output numbers = range(size);
  const Output gaps = cast(maximum(last, one), start.dtype());
  const Output step = (stop - start) / gaps;
  const Output places = start + cast(numbers, start.dtype()) * step;
  // Rounding must not miss the end; of one number, that is the start.
  const Output many = greater(last, constant<std::int64_t>(*start.graph, 0));
  const Output at_end = logical_and(many, equal(numbers, last));
  return select(at_end, stop, places, std::move(name));
}
Output sequence_mask(Output lengths, IntegersArg size, Name name) {
  const Output places = range(size.scalar_in(lengths));
  const Output own = expand_dims(cast(lengths, DType::i64), -1);
  return less(places, own, std::move(name));
}

}  // namespace troupe
