// Matrix products and biases on the CPU.
//
// Bits depend on shapes, dtype and flags; not on the number of threads, nor on the alignment of inputs.
// Outputs are tensors of the stated shape in aligned memory that no input shares. All throw invalid_argument,
// naming the shapes, for tensors that do not fit.
#pragma once

#include "devices/device.hpp"
#include "messages/tensor.hpp"

namespace troupe {

// [m,k] x [k,n] -> [m,n], each factor transposed first if asked.
Shape matmul_shape(const Shape& a, const Shape& b, bool transpose_a, bool transpose_b);

// The product; f32, f64, i32, i64 (integers wrap). k = 0 gives zeros.
void matmul(Parallelism& parallelism, const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b,
            Tensor& out);

// out[..., j] = x[..., j] + bias[j]; f32, f64. `out` may be `x` itself.
void bias_add(Parallelism& parallelism, const Tensor& x, const Tensor& bias, Tensor& out);

// out[j] = the sum of dy[..., j] over all axes but the last, in blocks of rows fixed by the shape; f32, f64.
void bias_add_grad(Parallelism& parallelism, const Tensor& dy, Tensor& out);

}  // namespace troupe
