// Conversion between dtypes.
#pragma once

#include <troupe/devices/device.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// Returns x converted to `to`. To a narrower floating type: rounds to nearest even. Floating to integer: towards zero;
// out of range becomes the nearest limit, NaN becomes 0. Integer to a narrower one: modulo 2^bits. To bool: true unless
// 0 (NaN is true). Throws unimplemented for strings.
Tensor cast(Device& device, const Tensor& x, DType to);

}  // namespace troupe
