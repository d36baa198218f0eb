// Device part of math_grad_launch.hpp.
#include <troupe/kernels/common/elementwise_ops.hpp>
#include <troupe/kernels/cuda/elementwise.cuh>
#include <troupe/kernels/cuda/math_grad_launch.hpp>

namespace troupe {

using namespace device;

cudaError_t launch_grad(GradOp op, DType dtype, const BinaryArguments& arguments, double alpha, cudaStream_t stream) {
  const auto launch = [&](auto types, auto function) {
    return dispatch(types, dtype, [&]<class T>() { return map_binary<T, T>(arguments, OnlyOp{function}, stream); });
  };
  switch (op) {
    case GradOp::relu:
      return launch(RealElements{}, ReluGradOp{});
    case GradOp::sigmoid:
      return launch(FloatElements{}, SigmoidGradOp{});
    case GradOp::tanh:
      return launch(FloatElements{}, TanhGradOp{});
    case GradOp::leaky_relu:
      return launch(FloatElements{}, LeakyReluGradOp<double>{alpha});
  }
  return cudaErrorInvalidValue;
}

}  // namespace troupe
