// Device part of math_unary_launch.hpp.
#include <troupe/kernels/common/elementwise_ops.hpp>
#include <troupe/kernels/cuda/cuda_math.cuh>
#include <troupe/kernels/cuda/elementwise.cuh>
#include <troupe/kernels/cuda/math_unary_launch.hpp>

namespace troupe {
namespace {

using namespace device;

struct Launch {
  DType dtype;
  const void* x;
  void* out;
  std::int64_t count;
  cudaStream_t stream;

  template <class List, class Op>
  cudaError_t operator()(List types, Op op) const {
    return dispatch(types, dtype, [&]<class T>() { return map_unary<T, T>(x, out, count, op, stream); });
  }
};

}  // namespace

cudaError_t launch_unary(UnaryOp op, DType dtype, const void* x, void* out, std::int64_t count, double alpha,
                         cudaStream_t stream) {
  const Launch launch{dtype, x, out, count, stream};
  switch (op) {
    case UnaryOp::neg:
      return launch(RealElements{}, NegOp{});
    case UnaryOp::abs:
      return launch(RealElements{}, AbsOp{});
    case UnaryOp::sign:
      return launch(RealElements{}, SignOp{});
    case UnaryOp::square:
      return launch(RealElements{}, SquareOp{});
    case UnaryOp::relu:
      return launch(RealElements{}, ReluOp{});
    case UnaryOp::exp:
      return launch(FloatElements{}, ExpOp<CudaMath>{});
    case UnaryOp::log:
      return launch(FloatElements{}, LogOp<CudaMath>{});
    case UnaryOp::log1p:
      return launch(FloatElements{}, Log1pOp<CudaMath>{});
    case UnaryOp::sqrt:
      return launch(FloatElements{}, SqrtOp{});
    case UnaryOp::rsqrt:
      return launch(FloatElements{}, RsqrtOp<CudaMath>{});
    case UnaryOp::tanh:
      return launch(FloatElements{}, TanhOp<CudaMath>{});
    case UnaryOp::sigmoid:
      return launch(FloatElements{}, SigmoidOp<CudaMath>{});
    case UnaryOp::softplus:
      return launch(FloatElements{}, SoftplusOp<CudaMath>{});
    case UnaryOp::floor:
      return launch(FloatElements{}, FloorOp{});
    case UnaryOp::erf:
      return launch(FloatElements{}, ErfOp<CudaMath>{});
    case UnaryOp::leaky_relu:
      return launch(FloatElements{}, LeakyReluOp<double>{alpha});
    case UnaryOp::logical_not:
      return launch(Elements<bool>{}, LogicalNotOp{});
  }
  return cudaErrorInvalidValue;
}

}  // namespace troupe
