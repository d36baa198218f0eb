// Layer normalisation on the CPU (Ba, Kiros & Hinton, "Layer Normalization", 2016): each row, along the last dimension
// of x, is normalised independently.
//
//   forward    y = x^ scale + offset, x^ = (x - mean) inverse, inverse = 1 / sqrt(variance + epsilon)     of the row's
//              elements
//   gradient   dx = inverse (g - mean(g) - x^ mean(g x^)), g = dy scale
//              doffset = sum over rows of dy, dscale = sum over rows of dy x^
//
// Dtypes, sums and errors as in batch_norm.hpp. A row's bits depend on that row alone.
#pragma once

#include <troupe/devices/device.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// scale and offset are [width]; mean and inverse_deviation have x's shape without its last dimension. Both are NaN for
// rows without elements, whose mean is undefined.
void layer_norm(Parallelism& parallelism, const Tensor& x, const Tensor& scale, const Tensor& offset, double epsilon,
                Tensor& y, Tensor& mean, Tensor& inverse_deviation);

void layer_norm_grad(Parallelism& parallelism, const Tensor& dy, const Tensor& x, const Tensor& scale,
                     const Tensor& mean, const Tensor& inverse_deviation, Tensor& dx, Tensor& dscale, Tensor& doffset);

}  // namespace troupe
