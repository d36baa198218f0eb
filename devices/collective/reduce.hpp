// The arithmetic of reductions, element by element (collective.hpp says what it comes to).
#pragma once

#include <troupe/devices/collective/collective.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

bool can_reduce(DType dtype);

// out = partial + local, or the maximum of both. `divisor`: of a mean, in its last addition; 1: no division. All are in
// host memory, of one reducible dtype and as many elements; `out` may be one of the others.
void combine(Reduction reduction, const Tensor& partial, const Tensor& local, std::uint32_t divisor, Tensor& out);

}  // namespace troupe
