// Loops over elements. An element's result depends only on its operands, not on its position, memory alignment or how
// the work is split. (The functors are branch-free where speed matters, so that the loops vectorise; -ffp-contract=off
// keeps a loop's vectorised body and its scalar remainder identical.)
#pragma once

#include <algorithm>
#include <array>

#include <troupe/kernels/common/elementwise.hpp>
#include <troupe/kernels/cpu/broadcast.hpp>
#include <troupe/kernels/cpu/ivdep.hpp>
#include <troupe/kernels/cpu/low_precision.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {

inline constexpr std::int64_t kElementGrain = 16384;

// f16 and bf16 are widened and narrowed a block at a time, with the same bits as one at a time.
template <class T>
inline constexpr bool kIsNarrow = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
inline constexpr std::int64_t kNarrowBlock = 512;

// Returns x, or its elements as floats in `room`.
template <class T>
const Compute<T>* widened(const T* x, [[maybe_unused]] Compute<T>* room, [[maybe_unused]] std::int64_t count) {
  if constexpr (kIsNarrow<T>) {
    widen(x, room, count);
    return room;
  } else {
    return x;
  }
}

// Calls fn(begin, n, to) for blocks of [0, count); fn writes elements begin .. begin + n - 1 to `to`.
template <class Out, class Fn>
void write_blocks(Out* out, std::int64_t count, Fn fn) {
  for (std::int64_t begin = 0; begin < count; begin += kNarrowBlock) {
    const std::int64_t n = std::min(kNarrowBlock, count - begin);
    if constexpr (kIsNarrow<Out>) {
      float room[kNarrowBlock];
      fn(begin, n, room);
      narrow(room, out + begin, n);
    } else {
      fn(begin, n, out + begin);
    }
  }
}

// out[i] = op(x[i]). `out` may be `x`.
template <class Out, class In, class Op>
void unary_stretch(const In* x, Out* out, std::int64_t count, Op op) {
  if constexpr (kIsNarrow<In> || kIsNarrow<Out>) {
    write_blocks(out, count, [&](std::int64_t begin, std::int64_t n, Compute<Out>* to) {
      Compute<In> room[kNarrowBlock];
      const Compute<In>* from = widened(x + begin, room, n);
      TROUPE_IVDEP
      for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<Compute<Out>>(op(from[i]));
    });
  } else {
    TROUPE_IVDEP
    for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<Out>(op(x[i]));
  }
}

template <class Out, class In, class Op>
void map_unary(Parallelism& parallelism, const In* x, Out* out, std::int64_t count, Op op) {
  parallelism.parallel_for(count, kElementGrain, [=](std::int64_t begin, std::int64_t end) {
    unary_stretch(x + begin, out + begin, end - begin, op);
  });
}

// Takes operands in their Compute type.
template <class Out, class In, class Op>
void wide_binary_stretch(const In* a, bool a_moves, const In* b, bool b_moves, Out* out, std::int64_t count, Op op) {
  if (a_moves && b_moves) {
    TROUPE_IVDEP
    for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<Out>(op(a[i], b[i]));
  } else if (a_moves) {
    const auto y = *b;
    TROUPE_IVDEP
    for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<Out>(op(a[i], y));
  } else {
    const auto x = *a;
    TROUPE_IVDEP
    for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<Out>(op(x, b[i]));
  }
}

// Not inlined: map_binary() has one copy of its loops for all its callers.
template <class Out, class In, class Op>
[[gnu::noinline]] void binary_stretch(const In* a, bool a_moves, const In* b, bool b_moves, Out* out,
                                      std::int64_t count, Op op) {
  if constexpr (kIsNarrow<In> || kIsNarrow<Out>) {
    write_blocks(out, count, [&](std::int64_t begin, std::int64_t n, Compute<Out>* to) {
      Compute<In> a_room[kNarrowBlock], b_room[kNarrowBlock];
      const Compute<In>* x = widened(a + (a_moves ? begin : 0), a_room, a_moves ? n : 1);
      const Compute<In>* y = widened(b + (b_moves ? begin : 0), b_room, b_moves ? n : 1);
      wide_binary_stretch(x, a_moves, y, b_moves, to, n, op);
    });
  } else {
    wide_binary_stretch(a, a_moves, b, b_moves, out, count, op);
  }
}

// out[i] = op(a[..], b[..]) with both operands broadcast to the shape of `plan`. `out` may be an operand of that shape.
template <class Out, class In, class Op>
void map_binary(Parallelism& parallelism, const BroadcastPlan& plan, const In* a, const In* b, Out* out,
                std::int64_t count, Op op) {
  const bool a_moves = plan.inner_contiguous(0), b_moves = plan.inner_contiguous(1);
  parallelism.parallel_for(count, kElementGrain, [&](std::int64_t begin, std::int64_t end) {
    for_each_stretch(plan, begin, end, [&](std::int64_t at, const auto& offsets, std::int64_t n) {
      binary_stretch(a + offsets[0], a_moves, b + offsets[1], b_moves, out + at, n, op);
    });
  });
}

// Kernel out = op(x) for T.
template <class T, class Op>
void run_unary(KernelContext& context, Op op) {
  const Shape shape = context.input(0).shape();
  const T* x = context.input(0).data<T>();
  Tensor out = context.take_or_allocate(0, dtype_of<T>, shape);
  map_unary(context.parallelism(), x, out.mutable_data<T>(), out.num_elements(), op);
  context.set_output(0, std::move(out));
}

// Kernel out = op(a, b), from In to Out, with broadcasting. Small operands of one shape need no plan: loops run many of
// these on scalars.
template <class Out, class In, class Op>
void run_binary(KernelContext& context, Op op) {
  const Tensor &x = context.input(0), &y = context.input(1);
  const In *a = x.data<In>(), *b = y.data<In>();
  if (const std::int64_t count = x.num_elements(); count <= kElementGrain && x.shape() == y.shape()) {
    const auto compute = [&](Tensor out) {
      binary_stretch(a, true, b, true, out.mutable_data<Out>(), count, op);
      context.set_output(0, std::move(out));
    };
    if constexpr (std::is_same_v<In, Out>) {
      if (Tensor taken = context.take_input(0); taken.valid()) return compute(std::move(taken));
      if (Tensor taken = context.take_input(1); taken.valid()) return compute(std::move(taken));
    }
    return compute(context.allocate(dtype_of<Out>, x.shape()));
  }
  const std::array<Shape, 2> shapes{x.shape(), y.shape()};
  const Shape shape = broadcast(shapes[0], shapes[1]);
  const BroadcastPlan plan = plan_broadcast(shape, shapes);
  Tensor out = take_any_or_allocate(context, dtype_of<Out>, shape);
  map_binary(context.parallelism(), plan, a, b, out.mutable_data<Out>(), out.num_elements(), op);
  context.set_output(0, std::move(out));
}

}  // namespace troupe
