// Convolution (cross-correlation) of one to three dimensions and its gradients on the CPU; f32 and bf16 by oneDNN, f64
// by matrix products, f16 (and bf16 on a CPU that cannot multiply it) in float, rounded.
//
// Layouts are those of kernels/common/conv_geometry.hpp. Work is split by images, based on shapes alone: results are
// bit-identical for given shapes, dtype and options, regardless of the number of threads and the alignment of inputs.
// Outputs are in aligned memory shared with no input. All functions throw invalid_argument, naming the shapes, for
// mismatched tensors.
#pragma once

#include <troupe/devices/device.hpp>
#include <troupe/kernels/common/conv_geometry.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

void conv(Parallelism& parallelism, const Tensor& x, const Tensor& filter, const ConvAttributes& options, Tensor& y);

// Gradient with respect to the input; dx gives its shape.
void conv_backprop_input(Parallelism& parallelism, const Tensor& filter, const Tensor& dy,
                         const ConvAttributes& options, Tensor& dx);

// Gradient with respect to the filter; d_filter gives its shape.
void conv_backprop_filter(Parallelism& parallelism, const Tensor& x, const Tensor& dy, const ConvAttributes& options,
                          Tensor& d_filter);

}  // namespace troupe
