// Select, and sums of many tensors.
#include <troupe/kernels/common/elementwise_ops.hpp>
#include <troupe/kernels/cpu/elementwise.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/scratch.hpp>

namespace troupe {
namespace {

template <class T>
void select(KernelContext& context) {
  const std::array<Shape, 3> shapes{context.input(0).shape(), context.input(1).shape(), context.input(2).shape()};
  const Shape shape = broadcast_all(shapes);
  const BroadcastPlan plan = plan_broadcast(shape, shapes);
  const bool* condition = context.input(0).data<bool>();
  const T* a = context.input(1).data<T>();
  const T* b = context.input(2).data<T>();
  Tensor out = context.allocate(dtype_of<T>, shape);
  T* to = out.mutable_data<T>();
  const std::int64_t step_c = plan.inner_contiguous(0), step_a = plan.inner_contiguous(1),
                     step_b = plan.inner_contiguous(2);
  context.parallelism().parallel_for(out.num_elements(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
    for_each_stretch(plan, begin, end, [&](std::int64_t at, const auto& offsets, std::int64_t count) {
      const bool* c = condition + offsets[0];
      const T *x = a + offsets[1], *y = b + offsets[2];
      if (step_c && step_a && step_b) {
        for (std::int64_t i = 0; i < count; ++i) to[at + i] = c[i] ? x[i] : y[i];
      } else {
        for (std::int64_t i = 0; i < count; ++i) to[at + i] = c[i * step_c] ? x[i * step_a] : y[i * step_b];
      }
    });
  });
  context.set_output(0, std::move(out));
}

// ((x0 + x1) + x2) + ..., computed in parts so that each part stays in the cache.
template <class T>
void add_n(KernelContext& context) {
  const Shape shape = context.input(0).shape();
  const int count = context.num_inputs();
  const ScratchArray<const T*> terms(count);
  for (int i = 0; i < count; ++i) {
    if (context.input(i).shape() != shape)
      invalid_argument("AddN: input {} is {}, input 0 is {}", i, context.input(i).shape().to_string(),
                       shape.to_string());
    terms[i] = context.input(i).data<T>();
  }
  if (count == 1) return context.set_output(0, context.input(0));
  Tensor out = context.take_or_allocate(0, dtype_of<T>, shape);
  T* sum = out.mutable_data<T>();
  context.parallelism().parallel_for(out.num_elements(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
    const T* so_far = terms[0];
    for (int i = 1; i < count; ++i, so_far = sum)
      binary_stretch(so_far + begin, true, terms[i] + begin, true, sum + begin, end - begin, AddOp{});
  });
  context.set_output(0, std::move(out));
}

}  // namespace

void register_select_kernels(KernelRegistry& registry) {
  add_kernels(registry, "Select", ElementTypes{}, []<class T>(KernelContext& context) { select<T>(context); });
  add_kernels(registry, "AddN", RealTypes{}, []<class T>(KernelContext& context) { add_n<T>(context); });
}

}  // namespace troupe
