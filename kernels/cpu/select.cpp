// Select, and sums of many tensors.
#include <troupe/kernels/common/elementwise_ops.hpp>
#include <troupe/kernels/cpu/elementwise.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/scratch.hpp>

namespace troupe {
namespace {

// T: a type of the size of the elements, or std::string.
template <class T>
void select(KernelContext& context) {
  const std::array<Shape, 3> shapes{context.input(0).shape(), context.input(1).shape(), context.input(2).shape()};
  const Shape shape = broadcast_all(shapes);
  const BroadcastPlan plan = plan_broadcast(shape, shapes);
  const bool* condition = context.input(0).data<bool>();
  if (context.input(1).dtype() != context.input(2).dtype())
    invalid_argument("Select: 'a' is {}, but 'b' is {}", name(context.input(1).dtype()),
                     name(context.input(2).dtype()));
  const T* a = reinterpret_cast<const T*>(context.input(1).raw());
  const T* b = reinterpret_cast<const T*>(context.input(2).raw());
  Tensor out = context.allocate(context.input(1).dtype(), shape);
  T* to = reinterpret_cast<T*>(out.mutable_raw());
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
  registry.add({"Select", "CPU", dtypes_of(ElementTypes{}), [](const KernelInit& init) -> Kernel {
                  const DType dtype = init.output_types[0];
                  if (dtype == DType::string) return select<std::string>;
                  const std::size_t size = size_of(dtype);
                  return size == 1   ? select<std::uint8_t>
                         : size == 2 ? select<std::uint16_t>
                         : size == 4 ? select<std::uint32_t>
                                     : select<std::uint64_t>;
                }});
  add_kernels(registry, "AddN", RealTypes{}, []<class T>(KernelContext& context) { add_n<T>(context); });
}

}  // namespace troupe
