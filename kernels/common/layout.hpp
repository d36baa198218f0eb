// Reordering elements of any dtype, and diagonals, by strided copies (movement.hpp). Functions return a new tensor and
// throw invalid_argument for arguments that do not fit.
#pragma once

#include <troupe/kernels/common/array.hpp>

namespace troupe {

// Entry b of the batch with its first lengths[b] elements along `seq` reversed.
Tensor reverse_sequence(Device& device, const Tensor& x, Dims lengths, std::int64_t seq, std::int64_t batch);
// Element i moves to i + shift, modulo the size, along each axis.
Tensor roll(Device& device, const Tensor& x, Dims shifts, Dims axes);
// Element i of the axis repeats[i] times; one number is for all.
Tensor repeat(Device& device, const Tensor& x, Dims repeats, std::int64_t axis);

// Diagonal k of matrices of a shape: its first element and length. Throws for fewer than two dimensions.
struct Diagonal {
  std::int64_t row = 0;
  std::int64_t column = 0;
  std::int64_t length = 0;
};
Diagonal diagonal_of(const Shape& shape, std::int64_t k);
Tensor diag_part(Device& device, const Tensor& x, std::int64_t k);
Tensor set_diag(Device& device, const Tensor& x, const Tensor& diagonal, std::int64_t k);

// Places of the dimensions of images, and the order of a block's numbers in the channels.
struct DepthLayout {
  std::int64_t block = 1;
  bool column_first = false;   // channel, row, column (CRD); else row, column, channel (DCR)
  bool channels_last = false;  // NHWC; else NCHW
};
DepthLayout depth_layout(std::int64_t block, std::string_view mode, std::string_view layout);
Tensor depth_to_space(Device& device, const Tensor& x, const DepthLayout& layout);
Tensor space_to_depth(Device& device, const Tensor& x, const DepthLayout& layout);
// `zero`: a scalar of x's dtype, what pads consist of.
Tensor space_to_batch(Device& device, const Tensor& x, Dims block, Dims pads, const Tensor& zero);
Tensor batch_to_space(Device& device, const Tensor& x, Dims block, Dims crops);

}  // namespace troupe
