// Slices, pads and tiles of tensors of any dtype, by strided copies (movement.hpp). Functions return a new tensor and
// throw invalid_argument for arguments that do not fit.
#pragma once

#include <troupe/graph/builder/pad_mode.hpp>
#include <troupe/kernels/common/array.hpp>

namespace troupe {

// Elements begin[d] .. begin[d] + size[d]; a size of -1 goes to the end.
Tensor slice(Device& device, const Tensor& x, Dims begin, Dims size);
// Zeros of `shape` with dy at `begin`.
Tensor slice_grad(Device& device, const Tensor& dy, const Shape& shape, Dims begin);

// x[begin:end:stride] along `axes` (graph/strided_range.hpp).
struct StridedBox {
  Dims begin, end, strides, axes;
};
Tensor strided_slice(Device& device, const Tensor& x, const StridedBox& box);
// Zeros of `shape` with dy where the slice is.
Tensor strided_slice_grad(Device& device, const Tensor& dy, const Shape& shape, const StridedBox& box);
// x in reverse order along `axes`.
Tensor reverse(Device& device, const Tensor& x, Dims axes);

// The sizes of a padded dimension: pads crop where they are negative.
struct PaddedDim {
  std::int64_t first = 0;   // element of x that is kept first
  std::int64_t kept = 0;    // elements of x
  std::int64_t before = 0;  // elements made before those, and after them
  std::int64_t after = 0;

  std::int64_t size() const { return before + kept + after; }
};
// `pads`: those before the elements of each dimension, then those after them.
std::array<PaddedDim, kMaxRank> padded_dims(const Shape& shape, Dims pads);
// The element, of `kept`, that stands at place p of a padded dimension, counted from the first kept; not for
// `constant`.
std::int64_t padded_source(PadMode mode, std::int64_t p, std::int64_t kept);

// `value`: the single element that PadMode::constant adds.
Tensor pad(Device& device, const Tensor& x, Dims pads, PadMode mode, const Tensor& value);
// x repeated multiples[d] times along each dimension.
Tensor tile(Device& device, const Tensor& x, Dims multiples);

}  // namespace troupe
