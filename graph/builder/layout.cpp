#include "troupe/graph/builder/layout.hpp"

#include <cstdlib>
#include <limits>

#include <troupe/graph/builder/array.hpp>
#include <troupe/graph/builder/math.hpp>

namespace troupe {
namespace {

Output with_diagonal(const char* op, const Outputs& inputs, const IntegersArg& k, Attributes attributes, Name name) {
  Outputs all = inputs;
  all.push_back(k.scalar_in(inputs[0]));
  return add_op(op, all, std::move(attributes), std::move(name));
}

Output depth_op(const char* op, Output x, std::int64_t block, DepthOptions options) {
  return add_op(op, {x},
                {{"block", block},
                 {"mode", std::string(options.column_first ? "CRD" : "DCR")},
                 {"layout", std::string(options.channels_last ? "NHWC" : "NCHW")}},
                std::move(options.name));
}

}  // namespace

Output reverse(Output x, IntegersArg axes, Name name) {
  return add_op("Reverse", {x, axes.in(x)}, {}, std::move(name));
}
Output reverse_sequence(Output x, Output lengths, ReverseSequenceOptions options) {
  return add_op("ReverseSequence", {x, cast(lengths, DType::i64)},
                {{"seq_axis", options.seq_axis}, {"batch_axis", options.batch_axis}}, std::move(options.name));
}
Output roll(Output x, IntegersArg shifts, IntegersArg axes, Name name) {
  return add_op("Roll", {x, shifts.in(x), axes.in(x)}, {}, std::move(name));
}
Output repeat(Output x, IntegersArg repeats, std::int64_t axis, Name name) {
  return add_op("Repeat", {x, repeats.in(x)}, {{"axis", axis}}, std::move(name));
}

Output triu(Output x, IntegersArg k, Name name) {
  return with_diagonal("Trilu", {x}, k, {{"upper", true}}, std::move(name));
}
Output tril(Output x, IntegersArg k, Name name) {
  return with_diagonal("Trilu", {x}, k, {{"upper", false}}, std::move(name));
}
Output band_part(Output x, std::int64_t lower, std::int64_t upper, Name name) {
  if (lower < 0 && upper < 0) return identity(x, std::move(name));
  if (upper < 0) return triu(x, -lower, std::move(name));
  if (lower < 0) return tril(x, upper, std::move(name));
  return triu(tril(x, upper), -lower, std::move(name));
}
Output diag_part(Output x, IntegersArg k, Name name) { return with_diagonal("DiagPart", {x}, k, {}, std::move(name)); }
Output set_diag(Output x, Output diagonal, IntegersArg k, Name name) {
  return with_diagonal("SetDiag", {x, diagonal}, k, {}, std::move(name));
}
Output diag(Output diagonal, std::int64_t k, Name name) {
  const Output shape = shape_of(diagonal);
  const Output size =
      strided_slice(shape, -1, std::numeric_limits<std::int64_t>::max()) + static_cast<double>(std::abs(k));
  const Output batch = strided_slice(shape, 0, -1);
  const Output dims = concat({batch, size, size}, 0);
  const Output zeros = fill(dims, scalar_like(diagonal, 0));
  return set_diag(zeros, diagonal, k, std::move(name));
}
Output eye(Output rows, Output columns, EyeOptions options) {
  const Output zero = scalar_like(rows, 0), one = scalar_like(rows, 1);
  const Output row = expand_dims(range(zero, rows, one), 1);
  const Output column = range(zero, columns, one);
  const Output on = equal(options.k == 0 ? row : row + static_cast<double>(options.k), column);
  return cast(on, options.dtype, std::move(options.name));
}

Output depth_to_space(Output x, std::int64_t block, DepthOptions options) {
  return depth_op("DepthToSpace", x, block, std::move(options));
}
Output space_to_depth(Output x, std::int64_t block, DepthOptions options) {
  return depth_op("SpaceToDepth", x, block, std::move(options));
}
Output space_to_batch(Output x, IntegersArg block, IntegersArg pads, Name name) {
  return add_op("SpaceToBatch", {x, block.in(x), pads.in(x)}, {}, std::move(name));
}
Output batch_to_space(Output x, IntegersArg block, IntegersArg crops, Name name) {
  return add_op("BatchToSpace", {x, block.in(x), crops.in(x)}, {}, std::move(name));
}

}  // namespace troupe
