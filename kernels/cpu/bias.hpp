// Biases on the CPU; f32, f64, f16, bf16 (computed in float, rounded to nearest even).
//
// Results are bit-identical for given shapes, dtype and flags, regardless of the number of threads and the alignment of
// inputs. All functions throw invalid_argument, naming the shapes, for mismatched tensors.
#pragma once

#include <troupe/devices/device.hpp>
#include <troupe/graph/builder/padding.hpp>
#include <troupe/kernels/cpu/epilogue.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// out[..., j] = activation(x[..., j] + bias[j]), or x[:, j, ...] with channels first. `out` may be `x` itself.
void bias_add(Parallelism& parallelism, const Tensor& x, const Tensor& bias, Tensor& out,
              FusedActivation activation = FusedActivation::none, DataFormat format = DataFormat::channels_last);

// out[j] = the sum of dy[..., j] or dy[:, j, ...] over all other axes, in blocks fixed by the shape.
void bias_add_grad(Parallelism& parallelism, const Tensor& dy, Tensor& out,
                   DataFormat format = DataFormat::channels_last);

}  // namespace troupe
