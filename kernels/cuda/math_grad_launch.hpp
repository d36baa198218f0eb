// Gradients of activations: interface between host and device code.
#pragma once

#include <cuda_runtime_api.h>

#include <troupe/kernels/cuda/elementwise_launch.hpp>
#include <troupe/messages/dtype.hpp>

namespace troupe {

enum class GradOp : std::uint8_t {
  relu,  // real types; the others take floating types
  sigmoid,
  tanh,
  leaky_relu,
};

// a: gradient of the result; b: the result, or for leaky_relu the operand. `alpha` is used by leaky_relu only. Returns
// cudaErrorInvalidValue if the op does not support `dtype`.
cudaError_t launch_grad(GradOp op, DType dtype, const BinaryArguments& arguments, double alpha, cudaStream_t stream);

}  // namespace troupe
