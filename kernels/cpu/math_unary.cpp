// Unary ops.
#include <troupe/kernels/cpu/elementwise_families.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/unary_loops.hpp>

namespace troupe {
namespace {

template <class T>
void run_floating(KernelContext& context, const UnaryLoops& loops) {
  const Shape shape = context.input(0).shape();
  const T* x = context.input(0).data<T>();
  Tensor out = context.take_or_allocate(0, dtype_of<T>, shape);
  T* to = out.mutable_data<T>();
  context.parallelism().parallel_for(out.num_elements(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
    run_loop(loops, x + begin, to + begin, end - begin);
  });
  context.set_output(0, std::move(out));
}

template <class Types, class Op>
void add_unary(KernelRegistry& registry, const std::string& name, Types types, Op op) {
  add_kernels(registry, name, types, [op]<class T>(KernelContext& context) { run_unary<T>(context, op); });
}

}  // namespace

void register_math_unary_kernels(KernelRegistry& registry) {
  for (const auto& [name, loops] : unary_loops())
    add_kernels(registry, std::string(name), FloatTypes{},
                [loops = loops]<class T>(KernelContext& context) { run_floating<T>(context, loops); });
  for_each_real_unary([&](const char* name, auto op) { add_unary(registry, name, IntegerTypes{}, op); });
  add_unary(registry, "LogicalNot", Types<bool>{}, LogicalNotOp{});
  add_factories(registry, "LeakyRelu", FloatTypes{}, []<class T>(const KernelInit& init) -> Kernel {
    const LeakyReluOp<Compute<T>> op{static_cast<Compute<T>>(init.attributes.real("alpha"))};
    return [op](KernelContext& context) { run_unary<T>(context, op); };
  });
}

}  // namespace troupe
