// Group normalisation on the CPU (Wu & He, "Group Normalization", 2018): x is [n, channels, ...]; the channels of an
// example are cut into groups, and the elements of a group are normalised together. One group per channel is instance
// normalisation (Ulyanov et al. 2016).
//
//   forward    y = x^ scale + offset, x^ = (x - mean) inverse, inverse = 1 / sqrt(variance + epsilon)   of the group
//   gradient   dx = inverse (g - mean(g) - x^ mean(g x^)), g = dy scale
//              doffset = sum over examples and positions of dy, dscale = the same of dy x^
//
// Dtypes and errors as in batch_norm.hpp. Moments of blocks of elements are joined in f64 in a fixed order, and a
// group's bits depend on that group alone.
#pragma once

#include <troupe/devices/device.hpp>
#include <troupe/kernels/common/channel_groups.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// scale and offset are [channels], mean and inverse_deviation [n, groups]: NaN for groups without elements.
void group_norm(Parallelism& parallelism, const Tensor& x, const Tensor& scale, const Tensor& offset, double epsilon,
                Tensor& y, Tensor& mean, Tensor& inverse_deviation);

void group_norm_grad(Parallelism& parallelism, const Tensor& dy, const Tensor& x, const Tensor& scale,
                     const Tensor& mean, const Tensor& inverse_deviation, Tensor& dx, Tensor& dscale, Tensor& doffset);

}  // namespace troupe
