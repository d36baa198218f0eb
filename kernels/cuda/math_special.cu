// Device part of math_special_launch.hpp. Compiled without fused multiply-adds, as on the CPU.
#include <troupe/kernels/common/bit_ops.hpp>
#include <troupe/kernels/common/division_ops.hpp>
#include <troupe/kernels/cuda/elementwise.cuh>
#include <troupe/kernels/cuda/math_special_launch.hpp>

namespace troupe {

using namespace device;

namespace {

// Not inlined: large code.
template <class Op>
struct Called {
  template <class T>
  __noinline__ __device__ T operator()(T a, T b) const {
    return Op{}(a, b);
  }
};

struct CalledPolygamma {
  PolygammaOp op;
  template <class T>
  __device__ T operator()(T x) const {
    return static_cast<T>(called(static_cast<double>(x)));
  }
  __noinline__ __device__ double called(double x) const { return op(x); }
};

// Ops of one list share a kernel.
struct Divisions {
  SpecialOp op;
  template <class Fn>
  __device__ void visit(Fn fn) const {
    if (op == SpecialOp::FloorDiv) return fn(Called<FloorDivOp>{});
    if (op == SpecialOp::FloorMod) return fn(Called<FloorModOp>{});
    fn(Called<TruncateModOp>{});
  }
};

struct Functions {
  SpecialOp op;
  template <class Fn>
  __device__ void visit(Fn fn) const {
    if (op == SpecialOp::Atan2) return fn(Called<Atan2Op>{});
    fn(Called<XlogyOp>{});
  }
};

struct Bits {
  SpecialOp op;
  template <class Fn>
  __device__ void visit(Fn fn) const {
    switch (op) {
      case SpecialOp::BitwiseAnd:
        return fn(BitwiseAndOp{});
      case SpecialOp::BitwiseOr:
        return fn(BitwiseOrOp{});
      case SpecialOp::BitwiseXor:
        return fn(BitwiseXorOp{});
      case SpecialOp::LeftShift:
        return fn(LeftShiftOp{});
      default:
        return fn(RightShiftOp{});
    }
  }
};

struct BitwiseNotOp {
  template <class T>
  __device__ T operator()(T x) const {
    return static_cast<T>(~x);
  }
};

}  // namespace

cudaError_t launch_special(SpecialOp op, DType dtype, const BinaryArguments& arguments, cudaStream_t stream) {
  const auto launch = [&](auto types, auto ops) {
    return dispatch(types, dtype, [&]<class T>() { return map_binary<T, T>(arguments, ops, stream); });
  };
  switch (op) {
    case SpecialOp::FloorDiv:
    case SpecialOp::FloorMod:
    case SpecialOp::TruncateMod:
      return launch(RealElements{}, Divisions{op});
    case SpecialOp::Atan2:
    case SpecialOp::Xlogy:
      return launch(FloatElements{}, Functions{op});
    default:
      return launch(Elements<std::int8_t, std::uint8_t, std::int16_t, std::int32_t, std::int64_t>{}, Bits{op});
  }
}

cudaError_t launch_polygamma(const PolygammaOp& op, DType dtype, const void* x, void* out, std::int64_t count,
                             cudaStream_t stream) {
  return dispatch(FloatElements{}, dtype,
                  [&]<class T>() { return map_unary<T, T>(x, out, count, CalledPolygamma{op}, stream); });
}

cudaError_t launch_bitwise_not(const void* x, void* out, std::int64_t bytes, cudaStream_t stream) {
  return map_unary<std::uint8_t, std::uint8_t>(x, out, bytes, BitwiseNotOp{}, stream);
}

}  // namespace troupe
