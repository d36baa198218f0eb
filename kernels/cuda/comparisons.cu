// Device part of comparisons_launch.hpp.
#include <troupe/kernels/common/elementwise_ops.hpp>
#include <troupe/kernels/cuda/comparisons_launch.hpp>
#include <troupe/kernels/cuda/elementwise.cuh>

namespace troupe {

using namespace device;

namespace {

struct Equality {
  bool negated;
  template <class Fn>
  __device__ void visit(Fn fn) const {
    if (negated)
      fn(NotEqualOp{});
    else
      fn(EqualOp{});
  }
};

struct Order {
  ComparisonOp op;
  template <class Fn>
  __device__ void visit(Fn fn) const {
    switch (op) {
      case ComparisonOp::less:
        return fn(LessOp{});
      case ComparisonOp::less_equal:
        return fn(LessEqualOp{});
      case ComparisonOp::greater:
        return fn(GreaterOp{});
      default:
        return fn(GreaterEqualOp{});
    }
  }
};

}  // namespace

cudaError_t launch_comparison(ComparisonOp op, DType dtype, const BinaryArguments& arguments, cudaStream_t stream) {
  const auto launch = [&](auto types, auto ops) {
    return dispatch(types, dtype, [&]<class T>() { return map_binary<bool, T>(arguments, ops, stream); });
  };
  switch (op) {
    case ComparisonOp::equal:
    case ComparisonOp::not_equal:
      return launch(DataElements{}, Equality{op == ComparisonOp::not_equal});
    case ComparisonOp::logical_and:
      return launch(Elements<bool>{}, OnlyOp{LogicalAndOp{}});
    case ComparisonOp::logical_or:
      return launch(Elements<bool>{}, OnlyOp{LogicalOrOp{}});
    default:
      return launch(RealElements{}, Order{op});
  }
}

}  // namespace troupe
