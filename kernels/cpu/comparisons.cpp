#include <troupe/kernels/cpu/elementwise.hpp>
#include <troupe/kernels/cpu/families.hpp>

namespace troupe {
namespace {

template <class Types, class Op>
void add_comparison(KernelRegistry& registry, const std::string& name, Types types, Op op) {
  add_kernels(registry, name, types, [op]<class T>(KernelContext& context) { run_binary<bool, T>(context, op); });
}

}  // namespace

void register_comparison_kernels(KernelRegistry& registry) {
  add_comparison(registry, "Equal", DataTypes{}, [](auto a, auto b) { return a == b; });
  add_comparison(registry, "NotEqual", DataTypes{}, [](auto a, auto b) { return a != b; });
  add_comparison(registry, "Less", RealTypes{}, [](auto a, auto b) { return a < b; });
  add_comparison(registry, "LessEqual", RealTypes{}, [](auto a, auto b) { return a <= b; });
  add_comparison(registry, "Greater", RealTypes{}, [](auto a, auto b) { return a > b; });
  add_comparison(registry, "GreaterEqual", RealTypes{}, [](auto a, auto b) { return a >= b; });
  add_comparison(registry, "LogicalAnd", Types<bool>{}, [](bool a, bool b) { return a && b; });
  add_comparison(registry, "LogicalOr", Types<bool>{}, [](bool a, bool b) { return a || b; });
}

}  // namespace troupe
