// Rarer binary ops, and Polygamma. Each has one loop per type of arithmetic: float for f16, bf16 and f32, i32 for the
// integers that fit, whose elements are converted by blocks.
#include <troupe/kernels/common/division_ops.hpp>
#include <troupe/kernels/common/special_ops.hpp>
#include <troupe/kernels/cpu/elementwise.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/operand_checks.hpp>

namespace troupe {
namespace {

template <class T>
using Wide = std::conditional_t<kIsNarrow<T>, float,
                                std::conditional_t<std::is_integral_v<T> && sizeof(T) < 4, std::int32_t, T>>;

template <class W>
using BinaryLoop = void (*)(const W* a, bool a_moves, const W* b, bool b_moves, W* out, std::int64_t count);

template <class W, class Op>
void binary_loop(const W* a, bool a_moves, const W* b, bool b_moves, W* out, std::int64_t count) {
  const std::int64_t step_a = a_moves, step_b = b_moves;
  for (std::int64_t i = 0; i < count; ++i) out[i] = Op{}(a[i * step_a], b[i * step_b]);
}

// Returns x, or its elements as W in `room`.
template <class W, class T>
const W* as_wide(const T* x, W* room, std::int64_t count) {
  if constexpr (std::is_same_v<W, T>) {
    return x;
  } else if constexpr (kIsNarrow<T>) {
    widen(x, room, count);
    return room;
  } else {
    std::copy_n(x, count, room);
    return room;
  }
}

template <class T>
void run_loop(KernelContext& context, BinaryLoop<Wide<T>> loop) {
  using W = Wide<T>;
  const std::array<Shape, 2> shapes{context.input(0).shape(), context.input(1).shape()};
  const Shape shape = broadcast(shapes[0], shapes[1]);
  const BroadcastPlan plan = plan_broadcast(shape, shapes);
  const T* a = context.input(0).data<T>();
  const T* b = context.input(1).data<T>();
  Tensor out = take_any_or_allocate(context, dtype_of<T>, shape);
  T* to = out.mutable_data<T>();
  const bool a_moves = plan.inner_contiguous(0), b_moves = plan.inner_contiguous(1);
  const auto block = [&](const T* x, const T* y, T* result, std::int64_t n) {
    W room_x[kNarrowBlock], room_y[kNarrowBlock], room[kNarrowBlock];
    const W* const wide_x = as_wide(x, room_x, a_moves ? n : 1);
    const W* const wide_y = as_wide(y, room_y, b_moves ? n : 1);
    if constexpr (std::is_same_v<W, T>)
      return loop(wide_x, a_moves, wide_y, b_moves, result, n);
    else
      loop(wide_x, a_moves, wide_y, b_moves, room, n);
    if constexpr (kIsNarrow<T>)
      narrow(room, result, n);
    else
      for (std::int64_t i = 0; i < n; ++i) result[i] = static_cast<T>(room[i]);
  };
  context.parallelism().parallel_for(out.num_elements(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
    for_each_stretch(plan, begin, end, [&](std::int64_t at, const auto& offsets, std::int64_t count) {
      for (std::int64_t i = 0; i < count; i += kNarrowBlock)
        block(a + offsets[0] + (a_moves ? i : 0), b + offsets[1] + (b_moves ? i : 0), to + at + i,
              std::min(kNarrowBlock, count - i));
    });
  });
  context.set_output(0, std::move(out));
}

template <class Op>
void add_division(KernelRegistry& registry, const std::string& name) {
  add_kernels(registry, name, RealTypes{}, []<class T>(KernelContext& context) {
    if constexpr (std::is_integral_v<T>) check_divisor<T>(context.input(0), context.input(1));
    run_loop<T>(context, binary_loop<Wide<T>, Op>);
  });
}

template <class Op>
void add_floating(KernelRegistry& registry, const std::string& name) {
  add_kernels(registry, name, FloatTypes{},
              []<class T>(KernelContext& context) { run_loop<T>(context, binary_loop<Wide<T>, Op>); });
}

Kernel make_polygamma(const KernelInit& init) {
  return [op = polygamma_op(init.node_name, init.attributes.integer("n"))](KernelContext& context) {
    dispatch(FloatTypes{}, context.input(0).dtype(),
             [&]<class T>() { run_unary<T>(context, [=](Compute<T> x) { return op(x); }); });
  };
}

}  // namespace

void register_math_special_kernels(KernelRegistry& registry) {
  add_division<FloorDivOp>(registry, "FloorDiv");
  add_division<FloorModOp>(registry, "FloorMod");
  add_division<TruncateModOp>(registry, "TruncateMod");
  add_floating<Atan2Op>(registry, "Atan2");
  add_floating<XlogyOp>(registry, "Xlogy");
  registry.add({"Polygamma", "CPU", dtypes_of(FloatTypes{}), make_polygamma});
}

}  // namespace troupe
