// Builder API for arrays: shapes, slices, joins, rows. Axes may be negative.
#pragma once

#include <optional>

#include <troupe/graph/builder/core.hpp>
#include <troupe/graph/builder/pad_mode.hpp>

namespace troupe {

Output reshape(Output x, const Shape& shape, Name name = {});  // one dimension may be unknown (-1)
Output reshape(Output x, Output shape, Name name = {});        // likewise
// A 0 in `shape` takes the dimension of x at its place (ONNX).
Output reshape_copying_zeros(Output x, IntegersArg shape, Name name = {});
Output reshape_like(Output x, Output like, Name name = {});
// The dimensions before `axis`, which may be x's rank, as one, and the others as one: [m,n].
Output flatten(Output x, std::int64_t axis = 1, Name name = {});
Output transpose(Output x, Integers perm = {}, Name name = {});    // default: reverses the dimensions
Output squeeze(Output x, IntegersArg axes = {}, Name name = {});   // default: all dimensions of size 1
Output expand_dims(Output x, IntegersArg axes, Name name = {});    // axes of the output
Output broadcast_to(Output x, IntegersArg shape, Name name = {});  // broadcasts both ways, as ONNX's Expand
Output as_scalar(Output x, Name name = {});                        // a tensor of one element; of a scalar, itself
// Each x as the dimension of its place in the broadcast of all ("ij" of NumPy): xs are vectors.
Outputs meshgrid(const Outputs& xs);

Output concat(const Outputs& xs, std::int64_t axis, Name name = {});
Output stack(const Outputs& xs, std::int64_t axis, Name name = {});
Outputs split(Output x, std::int64_t axis, std::int64_t parts, Name name = {});
// The number of sizes must be known.
Outputs split_sizes(Output x, std::int64_t axis, IntegersArg sizes, Name name = {});
Outputs unstack(Output x, std::int64_t axis, Name name = {});  // the size along the axis must be known

// A box inside x: size[d] elements from begin[d] in each dimension d; size -1: to the end.
Output slice(Output x, IntegersArg begin, IntegersArg size, Name name = {});
struct StridedSliceOptions {
  std::optional<IntegersArg> strides{};  // default: 1
  // One of these: the dimension of each entry (default: 0, 1, ...), or the masks of TensorFlow, bit i for entry i.
  std::optional<IntegersArg> axes{};
  std::uint64_t begin_mask = 0;        // from the first element (of the direction)
  std::uint64_t end_mask = 0;          // to the last
  std::uint64_t ellipsis_mask = 0;     // stands for all dimensions that no entry names
  std::uint64_t new_axis_mask = 0;     // a new dimension of size 1
  std::uint64_t shrink_axis_mask = 0;  // the element `begin`, without the dimension
  Name name{};
};
// x[begin:end:stride] as in NumPy: negative indices count from the end, others are clamped, strides may be negative.
Output strided_slice(Output x, IntegersArg begin, IntegersArg end, StridedSliceOptions options = {});

struct PadOptions {
  PadMode mode = PadMode::constant;
  double value = 0;
  Output value_tensor{};  // a scalar, instead of `value`
  Name name{};
};
// Elements before and after those of each dimension; negative numbers crop.
Output pad(Output x, const Integers& before, const Integers& after, PadOptions options = {});
Output pad_list(Output x, IntegersArg pads, PadOptions options = {});  // those before, then those after
Output tile(Output x, IntegersArg multiples, Name name = {});
struct OneHotOptions {
  DType dtype = DType::f32;
  double on = 1;
  double off = 0;
  Output values{};         // {off, on}, instead of the three above
  std::int64_t axis = -1;  // of the output
  Name name{};
};
// `on` where the place along the axis is the index, which may be negative, in [-depth, depth); elsewhere `off`.
Output one_hot(Output indices, IntegersArg depth, OneHotOptions options = {});
Output fill(Output dims, Output value, Name name = {});
Output range(Output start, Output limit, Output delta, Name name = {});
Output range(Output limit, Name name = {});  // 0, 1, ... below a scalar
// `count` (i64 scalar) floating numbers at equal distances, from `start` to `stop`, both included.
Output linspace(Output start, Output stop, IntegersArg count, Name name = {});
// bool [...,size]: whether a place is below the length, for lengths [...]; the size is an i64 scalar.
Output sequence_mask(Output lengths, IntegersArg size, Name name = {});

}  // namespace troupe
