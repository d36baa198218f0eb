// Batch normalisation on the CPU (Ioffe & Szegedy, "Batch Normalization", 2015): x is [rows, channels], its last
// dimension being the channels and all others rows.
//
//   forward    y = (x - mean) scale / sqrt(variance + epsilon) + offset       mean and variance of the channel's rows
//   gradient   dx = scale / sqrt(...) (dy - mean(dy) - x^ mean(dy x^))        x^ = (x - mean) / sqrt(...)
//              doffset = sum(dy), dscale = sum(dy x^)
//
// With relu, y is max(y, 0), and dy counts where y > 0: y is computed again, to the bit, and need not be kept.
//
// x may be f32, f64, f16 or bf16; all else is f32, or f64 for f64. Rows are taken in blocks fixed by the shape. Moments
// of a block are those of the corrected two-pass algorithm, and blocks are joined in order, in f64, with the pairwise
// formula (Chan, Golub & LeVeque, "Algorithms for Computing the Sample Variance", 1983): a large mean costs no digits
// of a small variance. All throw invalid_argument for tensors that do not fit; outputs must have the stated shape.
#pragma once

#include <troupe/devices/device.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

struct BatchNormScale {
  const Tensor& scale;   // [channels]
  const Tensor& offset;  // [channels]
  bool relu = false;
};

struct BatchNormStatistics {
  Tensor& mean;      // [channels]
  Tensor& variance;  // [channels]: sum of squared distances / (rows - 1), the estimate that running averages want
  Tensor& inverse_deviation;  // [channels]: 1 / sqrt(sum of squared distances / rows + epsilon)
};

// Throws for no rows, which have no mean.
void batch_norm(Parallelism& parallelism, const Tensor& x, const BatchNormScale& by, double epsilon, Tensor& y,
                BatchNormStatistics statistics);

// With statistics that are given.
void batch_norm_inference(Parallelism& parallelism, const Tensor& x, const BatchNormScale& by, const Tensor& mean,
                          const Tensor& variance, double epsilon, Tensor& y);

void batch_norm_grad(Parallelism& parallelism, const Tensor& dy, const Tensor& x, const BatchNormScale& by,
                     const Tensor& mean, const Tensor& inverse_deviation, Tensor& dx, Tensor& dscale, Tensor& doffset);

}  // namespace troupe
