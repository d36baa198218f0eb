// The elementwise arithmetic of reductions (defined in collective.hpp).
#pragma once

#include <troupe/devices/collective/collective.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

bool can_reduce(DType dtype);

// out = partial + local, or the maximum of both. `divisor`: applied in the last addition of a mean; 1: no division. All
// tensors are in host memory, of one reducible dtype and the same number of elements; `out` may alias either input.
void combine(Reduction reduction, const Tensor& partial, const Tensor& local, std::uint32_t divisor, Tensor& out);

}  // namespace troupe
