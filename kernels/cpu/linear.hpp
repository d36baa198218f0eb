// Matrix products on the CPU.
//
// Bits depend on shapes, dtype and flags; not on the number of threads, nor on the alignment of inputs.
// Outputs are tensors of the stated shape in aligned memory that no input shares. All throw invalid_argument,
// naming the shapes, for tensors that do not fit.
#pragma once

#include <troupe/devices/device.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// The product; f32, f64, f16 and bf16 (summed in float, rounded to nearest even), i32, i64 (integers wrap).
// k = 0 gives zeros.
void matmul(Parallelism& parallelism, const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b,
            Tensor& out);

}  // namespace troupe
