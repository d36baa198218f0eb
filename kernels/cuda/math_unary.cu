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

// One kernel for all: they are calls anyway.
struct Rare {
  UnaryOp op;
  template <class T>
  __device__ T operator()(T x) const {
#define TROUPE_CASE(NAME) \
  case UnaryOp::NAME:     \
    return NAME##Op<CudaMath>{}(x);
    switch (op) {
      TROUPE_RARE_UNARY_OPS(TROUPE_CASE)
      default:
        return x;
    }
#undef TROUPE_CASE
  }
};

}  // namespace

cudaError_t launch_unary(UnaryOp op, DType dtype, const void* x, void* out, std::int64_t count, double alpha,
                         cudaStream_t stream) {
  const Launch launch{dtype, x, out, count, stream};
#define TROUPE_REAL(NAME) \
  case UnaryOp::NAME:     \
    return launch(RealElements{}, NAME##Op{});
#define TROUPE_FLOAT(NAME) \
  case UnaryOp::NAME:      \
    return launch(FloatElements{}, NAME##Op{});
#define TROUPE_MATH(NAME) \
  case UnaryOp::NAME:     \
    return launch(FloatElements{}, NAME##Op<CudaMath>{});
  switch (op) {
    TROUPE_REAL_UNARY_OPS(TROUPE_REAL)
    TROUPE_FLOAT_UNARY_OPS(TROUPE_FLOAT)
    TROUPE_MATH_UNARY_OPS(TROUPE_MATH)
    case UnaryOp::LeakyRelu:
      return launch(FloatElements{}, LeakyReluOp<double>{alpha});
    case UnaryOp::LogicalNot:
      return launch(Elements<bool>{}, LogicalNotOp{});
    default:
      return launch(FloatElements{}, Rare{op});
  }
}
#undef TROUPE_MATH
#undef TROUPE_FLOAT
#undef TROUPE_REAL

}  // namespace troupe
