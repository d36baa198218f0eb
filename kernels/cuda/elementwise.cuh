// Kernels that compute each element of the result from one element per operand. A thread loads all its items before
// storing any, so an operand may share the result's memory.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>

#include <troupe/kernels/cuda/elementwise_launch.hpp>
#include <troupe/kernels/cuda/index_plan.cuh>
#include <troupe/kernels/cuda/launch.cuh>
#include <troupe/kernels/cuda/pack.cuh>

namespace troupe::device {

inline constexpr int kMostThreads = 256;

// Items of `kWidth` elements per thread: 16 elements, but at most 4 items.
template <int kWidth>
inline constexpr int kUnrollOf = kWidth >= 16  ? 1
                                 : kWidth >= 8 ? 2
                                               : 4;

// Index of this thread's item `u`.
template <int kUnrolled>
__device__ std::int64_t item_of_thread(int u) {
  return static_cast<std::int64_t>(blockIdx.x) * (blockDim.x * kUnrolled) + u * blockDim.x + threadIdx.x;
}

// Index of the trailing element that this thread computes, or -1.
__device__ inline std::int64_t rest_of_thread(std::int64_t items, int width, int rest) {
  const bool mine = blockIdx.x == gridDim.x - 1 && threadIdx.x < static_cast<unsigned>(rest);
  return mine ? items * width + threadIdx.x : -1;
}

// ---- one operand

template <class Out, class In, int kWidth, class Op>
__global__ __launch_bounds__(kMostThreads) void unary_kernel(const In* x, Out* out, std::int64_t items, int rest,
                                                             Op op) {
  constexpr int kItems = kUnrollOf<kWidth>;
  Pack<In, kWidth> loaded[kItems];
#pragma unroll
  for (int u = 0; u < kItems; ++u)
    if (const std::int64_t item = item_of_thread<kItems>(u); item < items)
      loaded[u] = load_pack<kWidth>(x + item * kWidth);
#pragma unroll
  for (int u = 0; u < kItems; ++u) {
    const std::int64_t item = item_of_thread<kItems>(u);
    if (item >= items) continue;
    Pack<Out, kWidth> result;
#pragma unroll
    for (int i = 0; i < kWidth; ++i)
      result.values[i] = narrow<Out>(static_cast<Compute<Out>>(op(widen(loaded[u].values[i]))));
    store_pack(result, out + item * kWidth);
  }
  if (const std::int64_t at = rest_of_thread(items, kWidth, rest); at >= 0)
    out[at] = narrow<Out>(static_cast<Compute<Out>>(op(widen(x[at]))));
}

// out[i] = op(x[i]); `out` may be `x`.
template <class Out, class In, class Op>
cudaError_t map_unary(const void* x, void* out, std::int64_t count, Op op, cudaStream_t stream) {
  constexpr int kWidth = 16 / static_cast<int>(std::max(sizeof(In), sizeof(Out)));
  if (count == 0) return cudaSuccess;
  const auto* from = static_cast<const In*>(x);
  auto* to = static_cast<Out*>(out);
  const auto launch = [&]<int kWide>(std::integral_constant<int, kWide>) {
    const LaunchGrid grid = grid_for(count / kWide, kUnrollOf<kWide>, kMostThreads);
    return device::launch(unary_kernel<Out, In, kWide, Op>, grid.blocks, grid.threads, stream, from, to, count / kWide,
                          static_cast<int>(count % kWide), op);
  };
  if (is_multiple(x, kWidth * sizeof(In)) && is_multiple(out, kWidth * sizeof(Out)))
    return launch(std::integral_constant<int, kWidth>{});
  return launch(std::integral_constant<int, 1>{});
}

// ---- two operands, broadcast

// `ops.visit(fn)` calls fn with the op chosen at launch, once for all elements of a thread, so that one kernel serves
// several ops at no cost.
template <class Out, class In, int kWidth, class Ops>
__global__ __launch_bounds__(kMostThreads) void binary_kernel(const __grid_constant__ BinaryArguments arguments,
                                                              Ops ops) {
  constexpr int kItems = kUnrollOf<kWidth>;
  const IndexPlan<2>& plan = arguments.plan;
  const auto* a = static_cast<const In*>(arguments.a);
  const auto* b = static_cast<const In*>(arguments.b);
  auto* out = static_cast<Out*>(arguments.out);
  Pack<In, kWidth> x[kItems], y[kItems];
#pragma unroll
  for (int u = 0; u < kItems; ++u) {
    const std::int64_t item = item_of_thread<kItems>(u);
    if (item >= plan.items) continue;
    const Offsets<2> offsets = locate(plan, item);
    x[u] = load_operand<kWidth>(a + offsets.of[0], plan.moves[0]);
    y[u] = load_operand<kWidth>(b + offsets.of[1], plan.moves[1]);
  }
  ops.visit([&](auto op) {
    const auto compute = [op](In left, In right) {
      return narrow<Out>(static_cast<Compute<Out>>(op(widen(left), widen(right))));
    };
#pragma unroll
    for (int u = 0; u < kItems; ++u) {
      const std::int64_t item = item_of_thread<kItems>(u);
      if (item >= plan.items) continue;
      Pack<Out, kWidth> result;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) result.values[i] = compute(x[u].values[i], y[u].values[i]);
      store_pack(result, out + item * kWidth);
    }
    if (const std::int64_t at = rest_of_thread(plan.items, kWidth, plan.rest); at >= 0)
      out[at] = compute(a[plan.moves[0] ? at : 0], b[plan.moves[1] ? at : 0]);
  });
}

// A set of one op.
template <class Op>
struct OnlyOp {
  Op op;
  template <class Fn>
  __device__ void visit(Fn fn) const {
    fn(op);
  }
};
template <class Op>
OnlyOp(Op) -> OnlyOp<Op>;  // clang 16 does not deduce this for an aggregate

// Item width that the host chooses for elements of T.
template <class T>
inline constexpr int kBinaryWidth = 16 / static_cast<int>(sizeof(T));

template <class Out, class In, class Ops>
cudaError_t map_binary(const BinaryArguments& arguments, Ops ops, cudaStream_t stream) {
  const auto launch = [&]<int kWide>(std::integral_constant<int, kWide>) {
    const LaunchGrid grid = grid_for(arguments.plan.items, kUnrollOf<kWide>, kMostThreads);
    return device::launch(binary_kernel<Out, In, kWide, Ops>, grid.blocks, grid.threads, stream, arguments, ops);
  };
  if (arguments.plan.width == kBinaryWidth<In>) return launch(std::integral_constant<int, kBinaryWidth<In>>{});
  if (arguments.plan.width == 1) return launch(std::integral_constant<int, 1>{});
  return cudaErrorInvalidValue;
}

}  // namespace troupe::device
