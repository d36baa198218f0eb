#include "troupe/graph/builder/index.hpp"

#include <troupe/graph/builder/array.hpp>
#include <troupe/graph/builder/math.hpp>

namespace troupe {

Output gather(Output table, Output indices, GatherOptions options) {
  return add_op("Gather", {std::move(table), std::move(indices)},
                {{"axis", options.axis}, {"batch_dims", options.batch_dims}, {"from_end", options.from_end}},
                std::move(options.name));
}
Output gather_nd(Output x, Output indices, GatherNdOptions options) {
  return add_op("GatherND", {std::move(x), std::move(indices)}, {{"batch_dims", options.batch_dims}},
                std::move(options.name));
}
Output gather_elements(Output x, Output indices, std::int64_t axis, Name name) {
  return add_op("GatherElements", {std::move(x), std::move(indices)}, {{"axis", axis}}, std::move(name));
}

Output scatter_add_rows(Output indices, Output values, Output like, Name name) {
  return add_op("ScatterAddRows", {std::move(indices), std::move(values), std::move(like)}, {}, std::move(name));
}
Output scatter_elements(Output data, Output indices, Output updates, ScatterElementsOptions options) {
  return add_op("ScatterElements", {std::move(data), std::move(indices), std::move(updates)},
                {{"axis", options.axis}, {"reduction", std::move(options.reduction)}}, std::move(options.name));
}
Output tensor_scatter(Output data, Output indices, Output updates, TensorScatterOptions options) {
  return add_op("ScatterND", {std::move(data), std::move(indices), std::move(updates)},
                {{"batch_dims", options.batch_dims}, {"reduction", std::move(options.reduction)}},
                std::move(options.name));
}
Output scatter_nd(Output indices, Output updates, Output shape, Name name) {
  const Output zeros = fill(shape, scalar_like(updates, 0));
  return tensor_scatter(zeros, indices, updates, {.reduction = "add", .name = std::move(name)});
}

Output non_zero(Output x, Name name) { return add_op("NonZero", {std::move(x)}, {}, std::move(name)); }
Output where(Output cond, Name name) { return transpose(non_zero(cond), {1, 0}, std::move(name)); }

Output compress(Output x, Output condition, std::int64_t axis, Name name) {
  const Output chosen = reshape(non_zero(condition), Shape{kUnknown});
  return gather(x, chosen, {.axis = axis, .name = std::move(name)});
}

Output boolean_mask(Output x, Output mask, std::int64_t axis, Name name) {
  if (!x.valid() || !mask.valid()) invalid_argument("boolean_mask: an input is not a tensor");
  const Shape &shape = x.shape(), &masked = mask.shape();
  if (!masked.has_rank() || masked.rank() == 0)
    invalid_argument("boolean_mask: the rank of the mask must be known and not 0, but its shape is {}",
                     masked.to_string());
  if (masked.rank() == 1) return compress(x, mask, axis, std::move(name));
  if (!shape.has_rank())
    invalid_argument("boolean_mask: the rank of x must be known if the mask has several dimensions");
  const std::int64_t at = axis < 0 ? axis + shape.rank() : axis, end = at + masked.rank();
  if (at < 0 || end > shape.rank())
    invalid_argument("boolean_mask: a mask {} at axis {} does not fit {}", masked.to_string(), axis, shape.to_string());
  for (int d = 0; d < masked.rank(); ++d) {
    const std::int64_t size = shape[static_cast<int>(at) + d];
    if (size != kUnknown && masked[d] != kUnknown && size != masked[d])
      invalid_argument("boolean_mask: a mask {} at axis {} does not fit {}", masked.to_string(), axis,
                       shape.to_string());
  }
  const Output dims = shape_of(x);
  const auto part = [&](std::int64_t begin, std::int64_t stop) {
    Integers numbers;
    for (std::int64_t d = begin; d < stop; ++d) numbers.push_back(d);
    return gather(dims, constant(*x.graph, Tensor::of<std::int64_t>(Shape{std::ssize(numbers)}, numbers)));
  };
  const Output before = part(0, at);
  const Output count = reshape(element_count(mask), Shape{1});
  const Output after = part(end, shape.rank());
  const Output flat = reshape(x, concat({before, count, after}, 0));
  return compress(flat, reshape(mask, Shape{kUnknown}), at, std::move(name));
}

Outputs dynamic_partition(Output x, Output partitions, std::int64_t parts, Name name) {
  return add_outputs("DynamicPartition", {x, partitions}, {{"N", parts}}, std::move(name));
}
Output dynamic_stitch(const Outputs& indices, const Outputs& xs, Name name) {
  if (indices.size() != xs.size())
    invalid_argument("dynamic_stitch: {} tensors of indices, but {} of rows", indices.size(), xs.size());
  Outputs inputs = indices;
  inputs.insert(inputs.end(), xs.begin(), xs.end());
  return add_op("DynamicStitch", inputs, {{"N", std::ssize(xs)}}, std::move(name));
}
Output invert_permutation(Output x, Name name) {
  return add_op("InvertPermutation", {std::move(x)}, {}, std::move(name));
}

}  // namespace troupe
