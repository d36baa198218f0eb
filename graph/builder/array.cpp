#include "troupe/graph/builder/array.hpp"

namespace troupe {
namespace {

Outputs many(const char* op, Output x, Attributes attributes, Name name) {
  return add_outputs(op, {x}, std::move(attributes), std::move(name));
}

}  // namespace

Output reshape(Output x, const Shape& shape, Name name) {
  if (!x.valid()) invalid_argument("reshape: x is not a tensor");
  if (!shape.has_rank()) invalid_argument("reshape: the new shape must have a known rank");
  const Shape count{shape.rank()};
  return reshape(x, constant(*x.graph, Tensor::of<std::int64_t>(count, shape.dims())), std::move(name));
}
Output reshape(Output x, Output shape, Name name) { return add_op("Reshape", {x, shape}, {}, std::move(name)); }
Output reshape_like(Output x, Output like, Name name) { return add_op("ReshapeLike", {x, like}, {}, std::move(name)); }
Output transpose(Output x, Integers perm, Name name) {
  return add_op("Transpose", {x}, {{"perm", std::move(perm)}}, std::move(name));
}
Output squeeze(Output x, Integers axes, Name name) {
  return add_op("Squeeze", {x}, {{"axes", std::move(axes)}}, std::move(name));
}
Output expand_dims(Output x, std::int64_t axis, Name name) {
  return add_op("ExpandDims", {x}, {{"axis", axis}}, std::move(name));
}
Output concat(const Outputs& xs, std::int64_t axis, Name name) {
  return add_op("Concat", xs, {{"axis", axis}}, std::move(name));
}
Output stack(const Outputs& xs, std::int64_t axis, Name name) {
  return add_op("Stack", xs, {{"axis", axis}}, std::move(name));
}
Outputs split(Output x, std::int64_t axis, std::int64_t parts, Name name) {
  return many("Split", x, {{"axis", axis}, {"N", parts}}, std::move(name));
}
Outputs split_sizes(Output x, std::int64_t axis, Integers sizes, Name name) {
  const auto parts = static_cast<std::int64_t>(sizes.size());
  return many("SplitSizes", x, {{"axis", axis}, {"sizes", std::move(sizes)}, {"N", parts}}, std::move(name));
}
Outputs unstack(Output x, std::int64_t axis, Name name) {
  if (!x.valid()) invalid_argument("unstack: x is not a tensor");
  const Shape& shape = x.shape();
  if (!shape.has_rank() || axis < -shape.rank() || axis >= shape.rank() || shape[static_cast<int>(axis)] == kUnknown)
    invalid_argument("unstack: the size of {} along axis {} is unknown", shape.to_string(), axis);
  return many("Unstack", x, {{"axis", axis}, {"N", shape[static_cast<int>(axis)]}}, std::move(name));
}
Output slice(Output x, Integers begin, Integers size, Name name) {
  return add_op("Slice", {x}, {{"begin", std::move(begin)}, {"size", std::move(size)}}, std::move(name));
}
Output pad(Output x, Integers before, Integers after, PadOptions options) {
  return add_op("Pad", {x}, {{"before", std::move(before)}, {"after", std::move(after)}, {"value", options.value}},
                std::move(options.name));
}
Output tile(Output x, Integers multiples, Name name) {
  return add_op("Tile", {x}, {{"multiples", std::move(multiples)}}, std::move(name));
}
Output gather(Output table, Output indices, Name name) {
  return add_op("Gather", {table, indices}, {}, std::move(name));
}
Output scatter_add_rows(Output indices, Output values, Output like, Name name) {
  return add_op("ScatterAddRows", {indices, values, like}, {}, std::move(name));
}
Output one_hot(Output indices, std::int64_t depth, OneHotOptions options) {
  return add_op("OneHot", {indices}, {{"T", options.dtype}, {"depth", depth}, {"on", options.on}, {"off", options.off}},
                std::move(options.name));
}
Output fill(Output dims, Output value, Name name) { return add_op("Fill", {dims, value}, {}, std::move(name)); }
Output range(Output start, Output limit, Output delta, Name name) {
  return add_op("Range", {start, limit, delta}, {}, std::move(name));
}

}  // namespace troupe
