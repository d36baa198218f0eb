// Reductions. The order of additions depends on the shape alone: fixed blocks in fixed order, regardless of the number
// of threads and of memory addresses. Sums of floating types add short blocks in their own precision (f16 and bf16:
// float) and the blocks in double; their error stays within 1e-5 x the sum of the absolute terms.
#pragma once

#include <span>

#include <troupe/devices/device.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

enum class Reduction { sum, mean, max, min, prod, half_square_sum };

// A dimension of the input, outermost first.
struct ReduceDim {
  std::int64_t size;
  bool reduced;
};

inline constexpr std::size_t kMaxReduceDims = 2 * kMaxRank;

// Reduces x, whose elements are laid out as `dims` (at most kMaxReduceDims), to a tensor of `shape`, which has as its
// elements those of the kept dimensions. Integers: sums and products wrap modulo 2^bits, means round towards zero. Of
// bool there are max (any) and min (all). Without elements: sum 0, product 1, mean NaN, any false, all true. Throws
// invalid_argument for another max or min and for a mean of integers without elements.
Tensor reduce(Device& device, Reduction kind, const Tensor& x, std::span<const ReduceDim> dims, const Shape& shape);

// Reduces over these axes, each once, or over all if there are none. With `keep_dims`, reduced dimensions stay as 1.
Tensor reduce_axes(Device& device, Reduction kind, const Tensor& x, std::span<const std::int64_t> axes, bool keep_dims);

// Sums x over the dimensions added by broadcasting `shape` to x's shape. Throws invalid_argument if `shape` does not
// broadcast to it.
Tensor sum_to(Device& device, const Tensor& x, const Shape& shape);

// Gradient of tile(): sums dy over the copies of each element of `shape`.
Tensor tile_grad(Device& device, const Tensor& dy, const Shape& shape, std::span<const std::int64_t> multiples);

// Index (i64) along an axis of the greatest or least element, of several the first or the last; NaN counts as it.
// Throws invalid_argument if the axis is empty.
struct ArgExtreme {
  bool greatest = true;
  bool last = false;
};
Tensor arg_extreme(Device& device, const Tensor& x, std::int64_t axis, ArgExtreme kind);

}  // namespace troupe
