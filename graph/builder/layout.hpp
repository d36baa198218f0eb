// Builder API for arrays: ops that reorder elements, and diagonals. Axes may be negative.
#pragma once

#include <troupe/graph/builder/core.hpp>

namespace troupe {

Output reverse(Output x, IntegersArg axes, Name name = {});
struct ReverseSequenceOptions {
  std::int64_t seq_axis = 0;
  std::int64_t batch_axis = 1;
  Name name{};
};
// Entry b of the batch with its first lengths[b] elements along seq_axis reversed; lengths i64 [batch].
Output reverse_sequence(Output x, Output lengths, ReverseSequenceOptions options = {});
// Element i moves to i + shift (modulo the size) along each of the axes, each given once.
Output roll(Output x, IntegersArg shifts, IntegersArg axes, Name name = {});
// Element i of the axis repeats[i] times, or repeats[0] times if there is one number.
Output repeat(Output x, IntegersArg repeats, std::int64_t axis, Name name = {});

// Of matrices [...,m,n]: zeros below (triu) or above (tril) diagonal k, and x elsewhere. Diagonal 0 is the main one,
// positive ones lie above it.
Output triu(Output x, IntegersArg k = 0, Name name = {});
Output tril(Output x, IntegersArg k = 0, Name name = {});
// x with zeros outside a band: `lower` diagonals below the main one and `upper` above it stay, all if negative.
Output band_part(Output x, std::int64_t lower, std::int64_t upper, Name name = {});
// Diagonal k of matrices [...,m,n]: [...,length]; empty if it lies outside.
Output diag_part(Output x, IntegersArg k = 0, Name name = {});
// Matrices x with diagonal k replaced by those of `diagonal`.
Output set_diag(Output x, Output diagonal, IntegersArg k = 0, Name name = {});
// Square matrices with diagonal k, of n elements, and zeros elsewhere: [...,n + |k|,n + |k|].
Output diag(Output diagonal, std::int64_t k = 0, Name name = {});
struct EyeOptions {
  DType dtype = DType::f32;
  std::int64_t k = 0;
  Name name{};
};
// The matrix [rows,columns] with ones on diagonal k; rows and columns are i64 scalars.
Output eye(Output rows, Output columns, EyeOptions options = {});

struct DepthOptions {
  bool column_first = false;   // ONNX's mode CRD: channel, then row and column in the block; else DCR
  bool channels_last = false;  // NHWC instead of NCHW
  Name name{};
};
// Blocks of channels become block x block squares of pixels, and back.
Output depth_to_space(Output x, std::int64_t block, DepthOptions options = {});
Output space_to_depth(Output x, std::int64_t block, DepthOptions options = {});
// TensorFlow's SpaceToBatchND: dimensions 1, 2, ... of x, padded with zeros by `pads` (those before, then those after),
// are cut into blocks, whose places go to the front of dimension 0; and back, cropped.
Output space_to_batch(Output x, IntegersArg block, IntegersArg pads, Name name = {});
Output batch_to_space(Output x, IntegersArg block, IntegersArg crops, Name name = {});

}  // namespace troupe
