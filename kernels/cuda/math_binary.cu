// Device part of math_binary_launch.hpp.
#include <troupe/kernels/common/elementwise_ops.hpp>
#include <troupe/kernels/cuda/cuda_math.cuh>
#include <troupe/kernels/cuda/elementwise.cuh>
#include <troupe/kernels/cuda/fault.cuh>
#include <troupe/kernels/cuda/math_binary_launch.hpp>

namespace troupe {

using namespace device;

namespace {

// Cheap ops. Pow is separate: it needs many registers.
struct Arithmetic {
  BinaryOp op;
  template <class Fn>
  __device__ void visit(Fn fn) const {
#define TROUPE_CASE(NAME) \
  case BinaryOp::NAME:    \
    return fn(NAME##Op{});
    switch (op) {
      TROUPE_ARITHMETIC_OPS(TROUPE_CASE)
      default:
        return;
    }
  }
};
#undef TROUPE_CASE

using Integers = Elements<std::int8_t, std::uint8_t, std::int16_t, std::int32_t, std::int64_t>;
using PowElements = Elements<float, double, F16, BF16, std::int32_t, std::int64_t>;

template <class T>
__global__ void __launch_bounds__(kMostThreads)
    check_operand(bool exponents, const T* values, std::int64_t count, CudaFaultSite fault) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kMostThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kMostThreads + threadIdx.x; i < count; i += step)
    if (exponents ? values[i] < T{0} : values[i] == T{0}) report(fault, values[i], i, 0);
}

}  // namespace

cudaError_t launch_binary(BinaryOp op, DType dtype, const BinaryArguments& arguments, cudaStream_t stream) {
  const auto launch = [&](auto types, auto ops) {
    return dispatch(types, dtype, [&]<class T>() { return map_binary<T, T>(arguments, ops, stream); });
  };
  switch (op) {
    case BinaryOp::Div:
      return launch(RealElements{}, OnlyOp{DivOp{}});
    case BinaryOp::Pow:
      return launch(PowElements{}, OnlyOp{PowOp<CudaMath>{}});
    default:
      return launch(RealElements{}, Arithmetic{op});
  }
}

cudaError_t launch_check_operand(BinaryOp op, DType dtype, const void* values, std::int64_t count, CudaFaultSite fault,
                                 cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  return dispatch(Integers{}, dtype, [&]<class T>() {
    return device::launch(check_operand<T>, blocks_for(count, kMostThreads), kMostThreads, stream, op == BinaryOp::Pow,
                          static_cast<const T*>(values), count, fault);
  });
}

}  // namespace troupe
