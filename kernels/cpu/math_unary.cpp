// Unary ops.
#include <troupe/kernels/cpu/elementwise.hpp>
#include <troupe/kernels/cpu/elementwise_families.hpp>
#include <troupe/kernels/cpu/families.hpp>

namespace troupe {
namespace {

template <class Types, class Op>
void add_unary(KernelRegistry& registry, const std::string& name, Types types, Op op) {
  add_kernels(registry, name, types, [op]<class T>(KernelContext& context) { run_unary<T>(context, op); });
}

}  // namespace

void register_math_unary_kernels(KernelRegistry& registry) {
  for_each_real_unary([&](const char* name, auto op) { add_unary(registry, name, RealTypes{}, op); });
  for_each_float_unary([&](const char* name, auto op) { add_unary(registry, name, FloatTypes{}, op); });
  add_unary(registry, "LogicalNot", Types<bool>{}, LogicalNotOp{});
  add_factories(registry, "LeakyRelu", FloatTypes{}, []<class T>(const KernelInit& init) -> Kernel {
    const LeakyReluOp<Compute<T>> op{static_cast<Compute<T>>(init.attributes.real("alpha"))};
    return [op](KernelContext& context) { run_unary<T>(context, op); };
  });
}

}  // namespace troupe
