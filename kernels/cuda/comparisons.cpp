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
  add_comparison(registry, "Equal", kDataDTypes, ComparisonOp::equal);
  add_comparison(registry, "NotEqual", kDataDTypes, ComparisonOp::not_equal);
  add_comparison(registry, "Less", kRealDTypes, ComparisonOp::less);
  add_comparison(registry, "LessEqual", kRealDTypes, ComparisonOp::less_equal);
  add_comparison(registry, "Greater", kRealDTypes, ComparisonOp::greater);
  add_comparison(registry, "GreaterEqual", kRealDTypes, ComparisonOp::greater_equal);
  add_comparison(registry, "LogicalAnd", {DType::boolean}, ComparisonOp::logical_and);
  add_comparison(registry, "LogicalOr", {DType::boolean}, ComparisonOp::logical_or);
}

}  // namespace troupe
