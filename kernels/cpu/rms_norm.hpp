// Root mean square normalisation on the CPU (Zhang & Sennrich, "Root Mean Square Layer Normalization", 2019): each row,
// along the last dimension of x, on its own.
//
//   forward    y = x inverse scale, inverse = 1 / sqrt(mean(x^2) + epsilon)
//   gradient   dx = inverse (g - x^ mean(g x^)), g = dy scale, x^ = x inverse;  dscale = sum over rows of dy x^
//
// Dtypes, sums and errors as in batch_norm.hpp. A row's bits depend on that row alone.
#pragma once

#include <troupe/devices/device.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// scale is [width]; `inverse` has x's shape without its last dimension.
void rms_norm(Parallelism& parallelism, const Tensor& x, const Tensor& scale, double epsilon, Tensor& y,
              Tensor& inverse);

void rms_norm_grad(Parallelism& parallelism, const Tensor& dy, const Tensor& x, const Tensor& scale,
                   const Tensor& inverse, Tensor& dx, Tensor& dscale);

}  // namespace troupe
