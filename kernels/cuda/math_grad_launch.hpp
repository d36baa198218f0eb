// Gradients of activations: interface between host and device code.
#pragma once

#include <cuda_runtime_api.h>

#include <troupe/graph/elementwise_vocabulary.hpp>
#include <troupe/kernels/cuda/elementwise_launch.hpp>
#include <troupe/messages/dtype.hpp>

namespace troupe {

// ReluGrad takes real types; the others take floating types.
#define TROUPE_ENUMERATOR(NAME) NAME,
enum class GradOp : std::uint8_t { ReluGrad, TROUPE_FLOAT_GRADIENT_OPS(TROUPE_ENUMERATOR) LeakyReluGrad };
#undef TROUPE_ENUMERATOR

// a: gradient of the result; b: the result, or for LeakyReluGrad the operand. `alpha` is used by LeakyReluGrad only.
// Returns cudaErrorInvalidValue if the op does not support `dtype`.
cudaError_t launch_grad(GradOp op, DType dtype, const BinaryArguments& arguments, double alpha, cudaStream_t stream);

}  // namespace troupe
