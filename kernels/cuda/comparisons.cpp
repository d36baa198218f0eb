// Binary ops with a bool result. Twin of kernels/cpu/comparisons.cpp.
#include <troupe/kernels/cuda/comparisons_launch.hpp>
#include <troupe/kernels/cuda/elementwise.hpp>

namespace troupe {
namespace {

// `name` must be a literal: it is kept.
void add_comparison(KernelRegistry& registry, const char* name, std::initializer_list<DType> dtypes, ComparisonOp op) {
  add_cuda(registry, name, dtypes, [name, op](const KernelInit&) -> Kernel {
    return [name, op](KernelContext& context) {
      const DType dtype = context.input(0).dtype();
      run_binary(context, name, DType::boolean,
                 [&, stream = cuda_device(context).stream()](const BinaryArguments& arguments) {
                   return launch_comparison(op, dtype, arguments, stream);
                 });
    };
  });
}

}  // namespace

void register_cuda_comparison_kernels(KernelRegistry& registry) {
#define TROUPE_EQUALITY(NAME) add_comparison(registry, #NAME, kDataDTypes, ComparisonOp::NAME);
#define TROUPE_ORDER(NAME) add_comparison(registry, #NAME, kRealDTypes, ComparisonOp::NAME);
  TROUPE_EQUALITY_OPS(TROUPE_EQUALITY)
  TROUPE_ORDER_OPS(TROUPE_ORDER)
  add_comparison(registry, "LogicalAnd", {DType::boolean}, ComparisonOp::LogicalAnd);
  add_comparison(registry, "LogicalOr", {DType::boolean}, ComparisonOp::LogicalOr);
}
#undef TROUPE_ORDER
#undef TROUPE_EQUALITY

}  // namespace troupe
