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
#define TROUPE_CASE(NAME) \
  case GradOp::NAME:      \
    return launch(FloatElements{}, NAME##Op{});
  switch (op) {
    case GradOp::ReluGrad:
      return launch(RealElements{}, ReluGradOp{});
      TROUPE_FLOAT_GRADIENT_OPS(TROUPE_CASE)
    case GradOp::LeakyReluGrad:
      return launch(FloatElements{}, LeakyReluGradOp<double>{alpha});
  }
  return cudaErrorInvalidValue;
}
#undef TROUPE_CASE

}  // namespace troupe
