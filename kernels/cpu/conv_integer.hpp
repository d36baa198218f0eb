// Convolution of bytes with exact 32-bit sums, by plain loops.
#pragma once

#include <troupe/devices/device.hpp>
#include <troupe/kernels/common/conv_geometry.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// sums [batch, windows, out] (channels first: [batch, out, windows]) of (x - x_zero) (filter - filter_zero): i8 or u8.
// A zero is a scalar of the dtype of its bytes, the filter's perhaps one for each output channel.
void conv_integer(Parallelism& parallelism, const ConvGeometry& g, const Tensor& x, const Tensor& filter,
                  const Tensor& x_zero, const Tensor& filter_zero, std::int32_t* sums);

}  // namespace troupe
