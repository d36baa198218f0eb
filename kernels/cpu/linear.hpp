// Matrix products on the CPU.
//
// Results are bit-identical for given shapes, dtype and flags, regardless of the number of threads and the alignment of
// inputs. Outputs are tensors of the stated shape in aligned memory shared with no input. All functions throw
// invalid_argument, naming the shapes, for mismatched tensors.
#pragma once

#include <troupe/devices/device.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// The product of matrices, batches of them, or vectors (matmul_plan()); f32, f64, f16 and bf16 (summed in float,
// rounded to nearest even), integers (they wrap). k = 0 gives zeros.
void matmul(Parallelism& parallelism, const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b,
            Tensor& out);

}  // namespace troupe
