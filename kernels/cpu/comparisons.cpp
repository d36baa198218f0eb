// Binary ops with a bool result.
#include <troupe/kernels/cpu/elementwise.hpp>
#include <troupe/kernels/cpu/elementwise_families.hpp>
#include <troupe/kernels/cpu/families.hpp>

namespace troupe {
namespace {

template <class Types, class Op>
void add_comparison(KernelRegistry& registry, const std::string& name, Types types, Op op) {
  add_kernels(registry, name, types, [op]<class T>(KernelContext& context) { run_binary<bool, T>(context, op); });
}

}  // namespace

void register_comparison_kernels(KernelRegistry& registry) {
  for_each_equality([&](const char* name, auto op) { add_comparison(registry, name, DataTypes{}, op); });
  for_each_order([&](const char* name, auto op) { add_comparison(registry, name, RealTypes{}, op); });
  add_comparison(registry, "LogicalAnd", Types<bool>{}, LogicalAndOp{});
  add_comparison(registry, "LogicalOr", Types<bool>{}, LogicalOrOp{});
}

}  // namespace troupe
