// Reductions. The order of the additions depends on the shape alone: blocks of fixed size in fixed order,
// whatever the number of threads or the place of the memory. Sums of floating types add short blocks in their
// own precision (f16 and bf16: float) and the blocks in double; their error stays within 1e-5 x the sum of
// the absolute terms.
#pragma once

#include <span>

#include <troupe/devices/device.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

enum class Reduction { sum, mean, max, min, half_square_sum };

// A dimension of the input, outermost first.
struct ReduceDim {
  std::int64_t size;
  bool reduced;
};

inline constexpr std::size_t kMaxReduceDims = 2 * kMaxRank;

// Reduces x, whose elements lie as `dims` says (at most kMaxReduceDims), to a tensor of `shape`, which has the elements
// of the kept dimensions. Integers: sums wrap modulo 2^bits, means round towards zero. The sum of nothing is
// 0, its mean NaN. Throws invalid_argument for max and min of nothing and the mean of no integers.
Tensor reduce(Device& device, Reduction kind, const Tensor& x, std::span<const ReduceDim> dims, const Shape& shape);

// Over these axes; over all if there are none. Reduced dimensions stay as 1 with `keep_dims`.
Tensor reduce_axes(Device& device, Reduction kind, const Tensor& x, std::span<const std::int64_t> axes, bool keep_dims);

// The sum of x over what broadcasting `shape` to the shape of x added. Throws invalid_argument if that is no
// broadcast.
Tensor sum_to(Device& device, const Tensor& x, const Shape& shape);

// The gradient of tile(): the sum of dy over the copies of each element of `shape`.
Tensor tile_grad(Device& device, const Tensor& dy, const Shape& shape, std::span<const std::int64_t> multiples);

// Index (i64) of the first greatest element along an axis; NaN is greatest. Throws invalid_argument if the
// axis is empty.
Tensor arg_max(Device& device, const Tensor& x, std::int64_t axis);

}  // namespace troupe
