// Detects infinities and NaN.
#pragma once

#include <troupe/devices/device.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// Returns whether all elements are finite; true if there are none. Throws unimplemented unless the dtype is floating.
bool all_finite(Parallelism& parallelism, const Tensor& x);

}  // namespace troupe
