// Batch normalisation on the CPU (Ioffe & Szegedy, "Batch Normalization", 2015): x is [rows, channels], where channels
// is its last dimension and rows all others.
//
//   forward    y = (x - mean) scale / sqrt(variance + epsilon) + offset       mean and variance of the channel's rows
//   gradient   dx = scale / sqrt(...) (dy - mean(dy) - x^ mean(dy x^))        x^ = (x - mean) / sqrt(...)
//              doffset = sum(dy), dscale = sum(dy x^)
//
// With relu, y is max(y, 0), and dy counts only where y > 0: y is recomputed bit for bit and need not be kept.
//
// x may be f32, f64, f16 or bf16; everything else is f32, or f64 if x is f64. Rows are divided into blocks fixed by the
// shape. Moments of a block use the corrected two-pass algorithm, and blocks are merged in order, in f64, with the
// pairwise formula (Chan, Golub & LeVeque, "Algorithms for Computing the Sample Variance", 1983), so a large mean costs
// a small variance no digits. All functions throw invalid_argument for mismatched tensors; outputs must have the stated
// shape.
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
  Tensor& variance;  // [channels]: sum of squared distances / (rows - 1), the estimate used by running averages
  Tensor& inverse_deviation;  // [channels]: 1 / sqrt(sum of squared distances / rows + epsilon)
};

// Throws if there are no rows, since then the mean is undefined.
void batch_norm(Parallelism& parallelism, const Tensor& x, const BatchNormScale& by, double epsilon, Tensor& y,
                BatchNormStatistics statistics);

// Uses the given statistics.
void batch_norm_inference(Parallelism& parallelism, const Tensor& x, const BatchNormScale& by, const Tensor& mean,
                          const Tensor& variance, double epsilon, Tensor& y);

void batch_norm_grad(Parallelism& parallelism, const Tensor& dy, const Tensor& x, const BatchNormScale& by,
                     const Tensor& mean, const Tensor& inverse_deviation, Tensor& dx, Tensor& dscale, Tensor& doffset);

}  // namespace troupe
