// Biases on the CPU; f32, f64, f16, bf16 (computed in float, rounded to nearest even).
//
// Results are bit-identical for given shapes, dtype and flags, regardless of the number of threads and the alignment of
// inputs. All functions throw invalid_argument, naming the shapes, for mismatched tensors.
#pragma once

#include <troupe/devices/device.hpp>
#include <troupe/kernels/cpu/epilogue.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// out[..., j] = activation(x[..., j] + bias[j]). `out` may be `x` itself.
void bias_add(Parallelism& parallelism, const Tensor& x, const Tensor& bias, Tensor& out,
              FusedActivation activation = FusedActivation::none);

// out[j] = the sum of dy[..., j] over all axes but the last, in blocks of rows fixed by the shape.
void bias_add_grad(Parallelism& parallelism, const Tensor& dy, Tensor& out);

}  // namespace troupe
