// Between the host and the device part of the gradients of activations.
#pragma once

#include <cuda_runtime_api.h>

#include <troupe/kernels/cuda/elementwise_launch.hpp>
#include <troupe/messages/dtype.hpp>

namespace troupe {

enum class GradOp : std::uint8_t {
  relu,  // of any real type; the others of floating types
  sigmoid,
  tanh,
  leaky_relu,
};

// a: the gradient of the result, b: the result, or of leaky_relu the operand. `alpha`: of leaky_relu.
// cudaErrorInvalidValue for a dtype that the op does not take.
cudaError_t launch_grad(GradOp op, DType dtype, const BinaryArguments& arguments, double alpha, cudaStream_t stream);

}  // namespace troupe
