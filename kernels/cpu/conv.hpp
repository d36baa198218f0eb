// Two-dimensional convolution (cross-correlation) and its gradients on the CPU; f32 and bf16 through
// oneDNN, f64 through matrix products, f16 (and bf16 on a CPU that cannot multiply it) as float, rounded.
//
// Images are NHWC [n, height, width, in], filters HWIO [kernel height, kernel width, in, out], results NHWC
// [n, out height, out width, out]. Work is split into images by shape alone: bits depend on shapes, dtype and
// options; not on the number of threads, nor on the alignment of inputs. Outputs are in aligned memory that
// no input shares. All throw invalid_argument, naming shapes, for tensors that do not fit.
#pragma once

#include <troupe/devices/device.hpp>
#include <troupe/kernels/common/conv_geometry.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

void conv2d(Parallelism& parallelism, const Tensor& x, const Tensor& filter, const Conv2DAttributes& options,
            Tensor& y);

// The gradient by x; dx gives the shape of x.
void conv2d_backprop_input(Parallelism& parallelism, const Tensor& filter, const Tensor& dy,
                           const Conv2DAttributes& options, Tensor& dx);

// The gradient by the filter; d_filter gives the shape of the filter.
void conv2d_backprop_filter(Parallelism& parallelism, const Tensor& x, const Tensor& dy,
                            const Conv2DAttributes& options, Tensor& d_filter);

}  // namespace troupe
