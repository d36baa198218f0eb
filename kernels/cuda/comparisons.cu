// Device part of comparisons_launch.hpp.
#include <troupe/kernels/common/elementwise_ops.hpp>
#include <troupe/kernels/cuda/comparisons_launch.hpp>
#include <troupe/kernels/cuda/elementwise.cuh>

namespace troupe {

using namespace device;

namespace {

#define TROUPE_CASE(NAME)  \
  case ComparisonOp::NAME: \
    return fn(NAME##Op{});

struct Equality {
  ComparisonOp op;
  template <class Fn>
  __device__ void visit(Fn fn) const {
    switch (op) {
      TROUPE_EQUALITY_OPS(TROUPE_CASE)
      default:
        return;
    }
  }
};

struct Order {
  ComparisonOp op;
  template <class Fn>
  __device__ void visit(Fn fn) const {
    switch (op) {
      TROUPE_ORDER_OPS(TROUPE_CASE)
      default:
        return;
    }
  }
};
#undef TROUPE_CASE

}  // namespace

cudaError_t launch_comparison(ComparisonOp op, DType dtype, const BinaryArguments& arguments, cudaStream_t stream) {
  const auto launch = [&](auto types, auto ops) {
    return dispatch(types, dtype, [&]<class T>() { return map_binary<bool, T>(arguments, ops, stream); });
  };
#define TROUPE_EQUALITY(NAME) case ComparisonOp::NAME:
  switch (op) {
    TROUPE_EQUALITY_OPS(TROUPE_EQUALITY)
    return launch(DataElements{}, Equality{op});
    case ComparisonOp::LogicalAnd:
      return launch(Elements<bool>{}, OnlyOp{LogicalAndOp{}});
    case ComparisonOp::LogicalOr:
      return launch(Elements<bool>{}, OnlyOp{LogicalOrOp{}});
    default:
      return launch(RealElements{}, Order{op});
  }
}
#undef TROUPE_EQUALITY

}  // namespace troupe
