// The gradients of pads and repeats: sums over the copies of each element, one dimension after the other. fold_copies()
// is defined once per kernel library: kernels/cpu/layout_kernels.cpp, kernels/cuda/layout.cpp.
#pragma once

#include <cstdint>
#include <vector>

#include <troupe/kernels/common/slices.hpp>

namespace troupe {

// Of each element of a dimension: the places in dy that are its copies, those of element i from starts[i] on.
struct Copies {
  std::vector<std::int64_t> starts;
  std::vector<std::int64_t> places;
};

// dy with dimension d made smaller.
Shape folded_shape(const Shape& dy, int d, const Copies& copies);
// Element i of the dimension is the sum of its copies in order, rounded once.
Tensor fold_copies(Device& device, const Tensor& dy, int d, const Copies& copies);

// Throw invalid_argument for a dy that does not fit.
Tensor pad_grad(Device& device, Tensor dy, const Shape& shape, Dims pads, PadMode mode);
Tensor repeat_grad(Device& device, const Tensor& dy, const Shape& shape, Dims repeats, std::int64_t axis);

}  // namespace troupe
