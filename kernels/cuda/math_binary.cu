#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/elementwise_ops.cuh"
#include "kernels/cuda/math_binary_launch.hpp"

namespace troupe {

using namespace device;

namespace {

// What is cheap, and Pow by itself: it needs many registers.
struct Arithmetic {
  BinaryOp op;
  template <class Fn>
  __device__ void visit(Fn fn) const {
    switch (op) {
      case BinaryOp::add:
        return fn(AddOp{});
      case BinaryOp::sub:
        return fn(SubOp{});
      case BinaryOp::mul:
        return fn(MulOp{});
      case BinaryOp::maximum:
        return fn(MaximumOp{});
      case BinaryOp::minimum:
        return fn(MinimumOp{});
      case BinaryOp::squared_difference:
        return fn(SquaredDifferenceOp{});
      default:
        return;
    }
  }
};

}  // namespace

cudaError_t launch_binary(BinaryOp op, DType dtype, const BinaryArguments& arguments, cudaStream_t stream) {
  const auto launch = [&](auto types, auto ops) {
    return dispatch(types, dtype, [&]<class T>() { return map_binary<T, T>(arguments, ops, stream); });
  };
  switch (op) {
    case BinaryOp::div:
      return launch(FloatElements{}, OnlyOp{DivOp{}});
    case BinaryOp::pow:
      return launch(FloatElements{}, OnlyOp{PowOp{}});
    default:
      return launch(RealElements{}, Arithmetic{op});
  }
}

}  // namespace troupe
