// Looks for infinities and NaN.
#pragma once

#include <troupe/devices/device.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// Are all elements finite? True of no elements. Throws unimplemented for a dtype that is not floating.
bool all_finite(Parallelism& parallelism, const Tensor& x);

}  // namespace troupe
