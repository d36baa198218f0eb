// Builder API for pooling of one to three dimensions. Images are [n, spatial..., c], or [n, c, spatial...] with
// DataFormat::channels_first.
#pragma once

#include <troupe/graph/builder/core.hpp>
#include <troupe/graph/builder/padding.hpp>

namespace troupe {

struct PoolOptions {
  Integers ksize = {2, 2};    // for each spatial axis
  Integers strides = {2, 2};  // empty: 1
  Integers dilations{};       // default 1
  Padding padding = Padding::same;
  Integers pads{};         // of Padding::explicit_pads: before each axis, then after each
  bool ceil_mode = false;  // with explicit pads: a last window may reach over the end
  DataFormat format = DataFormat::channels_last;
  Name name{};
};
// The maximum of each window's elements; NaN if one of them is. A window of padding only gives the lowest value.
Output max_pool(Output x, PoolOptions options = {});

// The number that a sum is divided by: of the window's elements that exist, of those in the padded image, or 1.
enum class PoolDivisor : std::uint8_t { existing, padded, one };
Output avg_pool(Output x, PoolOptions options = {}, PoolDivisor divisor = PoolDivisor::existing);

struct MaxPoolOutputs {
  Output y{};
  Output indices{};  // i64: of the first maximum in x's row-major order; -1 in a window of padding only
};
MaxPoolOutputs max_pool_with_indices(Output x, PoolOptions options = {});
// Zeros of `shape` (i64), with each x at its index in row-major order. Of several x with one index, the last stays.
Output max_unpool(Output x, Output indices, Output shape, Name name = {});

// (sum of |x|^p)^(1/p) of each window, p > 0. Its gradient is 0 where the window is all 0.
Output lp_pool(Output x, double p = 2, PoolOptions options = {});

// Over all spatial axes, which stay with size 1.
Output global_avg_pool(Output x, DataFormat format = DataFormat::channels_last);
Output global_max_pool(Output x, DataFormat format = DataFormat::channels_last);
Output global_lp_pool(Output x, double p = 2, DataFormat format = DataFormat::channels_last);

}  // namespace troupe
