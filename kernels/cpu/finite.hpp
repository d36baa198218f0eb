// Looks for infinities and NaN.
#pragma once

#include "devices/device.hpp"
#include "messages/tensor.hpp"

namespace troupe {

// Are all elements finite? True of no elements. Throws unimplemented for a dtype that is not floating.
bool all_finite(Parallelism& parallelism, const Tensor& x);

}  // namespace troupe
