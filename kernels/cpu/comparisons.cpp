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

void run_strings(KernelContext& context, bool equal) {
  const std::array<Shape, 2> shapes{context.input(0).shape(), context.input(1).shape()};
  const Shape shape = broadcast(shapes[0], shapes[1]);
  const BroadcastPlan plan = plan_broadcast(shape, shapes);
  const std::string* a = context.input(0).data<std::string>();
  const std::string* b = context.input(1).data<std::string>();
  Tensor out = context.allocate(DType::boolean, shape);
  bool* to = out.mutable_data<bool>();
  const std::int64_t step_a = plan.inner_contiguous(0), step_b = plan.inner_contiguous(1);
  context.parallelism().parallel_for(out.num_elements(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
    for_each_stretch(plan, begin, end, [&](std::int64_t at, const auto& offsets, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i)
        to[at + i] = (a[offsets[0] + i * step_a] == b[offsets[1] + i * step_b]) == equal;
    });
  });
  context.set_output(0, std::move(out));
}

}  // namespace

void register_comparison_kernels(KernelRegistry& registry) {
  for_each_equality([&](const char* name, auto op) { add_comparison(registry, name, DataTypes{}, op); });
  for_each_order([&](const char* name, auto op) { add_comparison(registry, name, RealTypes{}, op); });
  for (const bool equal : {true, false})
    add_kernels(registry, equal ? "Equal" : "NotEqual", Types<std::string>{},
                [equal]<class T>(KernelContext& context) { run_strings(context, equal); });
  add_comparison(registry, "LogicalAnd", Types<bool>{}, LogicalAndOp{});
  add_comparison(registry, "LogicalOr", Types<bool>{}, LogicalOrOp{});
}

}  // namespace troupe
