// Reduction kernels for one reducer, a type with
//   Element, Out           types of the input and the output
//   Lane                   accumulator for a run of terms
//   Acc                    accumulator for runs
//   lane(), acc()          initial values
//   step(lane, x, index)   lane after adding term number `index`
//   join(lane, lane), merge(acc, acc), widened(lane): Acc
//   finish(acc)            the result
#pragma once

#include <limits>

#include <troupe/kernels/cuda/element_types.cuh>
#include <troupe/kernels/cuda/launch.cuh>
#include <troupe/kernels/cuda/reduce_launch.hpp>

namespace troupe::device {

inline constexpr int kRunSteps = 64;     // loads per thread accumulated in one Lane
inline constexpr int kReduceUnroll = 4;  // loads in flight at once

// Not inlined: many divisions, for rare layouts.
static __device__ __noinline__ std::int64_t nested_offset(const ReduceLoops& loops, std::int64_t index) {
  std::int64_t offset = 0;
  for (int d = loops.count; d-- > 0; index /= loops.all[d].size)
    offset += index % loops.all[d].size * loops.all[d].stride;
  return offset;
}
static __device__ __noinline__ std::int64_t nested_offset(const ReduceLoops& loops, std::int64_t inner,
                                                          std::int64_t index) {
  return nested_offset(loops, index / inner) + index % inner;
}
// Offset of combination `index` of the loops.
__device__ inline std::int64_t loop_offset(const ReduceLoops& loops, std::int64_t index) {
  return loops.count <= 1 ? index * loops.all[0].stride : nested_offset(loops, index);
}

// Identity of the reduction: every value is at least (at most) this.
template <class T, bool kGreatest>
__device__ constexpr T beaten_by_all() {
  using Limits = std::numeric_limits<T>;
  if constexpr (Limits::has_infinity)
    return kGreatest ? -Limits::infinity() : Limits::infinity();
  else
    return kGreatest ? Limits::lowest() : Limits::max();
}

// Accumulates a thread's share of [begin, end): `kVector` adjacent terms (kAlong), or adjacent columns of one term, at
// from(t) for t = begin, begin + step, ... Merges into totals[0], or into one total per column.
template <class R, int kVector, bool kAlong, class From>
__device__ inline void accumulate(const R& reducer, std::int64_t begin, std::int64_t end, std::int64_t step,
                                  bool vectors, From from, typename R::Acc* totals) {
  using Element = typename R::Element;
  std::int64_t t = begin;
  while (t < end) {
    typename R::Lane lanes[kVector];
#pragma unroll
    for (int v = 0; v < kVector; ++v) lanes[v] = reducer.lane();
    const auto take = [&](const Element(&values)[kVector], std::int64_t at) {
#pragma unroll
      for (int v = 0; v < kVector; ++v) lanes[v] = reducer.step(lanes[v], values[v], kAlong ? at + v : at);
    };
    int s = 0;
    for (; s < kRunSteps && t + (kReduceUnroll - 1) * step < end; s += kReduceUnroll, t += kReduceUnroll * step) {
      Element values[kReduceUnroll][kVector];
#pragma unroll
      for (int u = 0; u < kReduceUnroll; ++u) load<kVector>(from(t + u * step), vectors, values[u]);
#pragma unroll
      for (int u = 0; u < kReduceUnroll; ++u) take(values[u], t + u * step);
    }
    for (; s < kRunSteps && t < end; ++s, t += step) {
      Element values[kVector];
      load<kVector>(from(t), vectors, values);
      take(values, t);
    }
    if constexpr (kAlong) {
#pragma unroll
      for (int width = kVector / 2; width > 0; width /= 2)
#pragma unroll
        for (int v = 0; v < width; ++v) lanes[v] = reducer.join(lanes[v], lanes[v + width]);
      totals[0] = reducer.merge(totals[0], reducer.widened(lanes[0]));
    } else {
#pragma unroll
      for (int v = 0; v < kVector; ++v) totals[v] = reducer.merge(totals[v], reducer.widened(lanes[v]));
    }
  }
}

// Reduces the inner dimension.
template <class R, int kVector>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_rows(R reducer, const __grid_constant__ ReduceLayout layout, ReduceGrid grid, bool vectors,
                const typename R::Element* x, typename R::Out* out, typename R::Acc* partial) {
  using Acc = typename R::Acc;
  constexpr int kWarps = kReduceThreads / 32;
  __shared__ Acc warps[kWarps];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % grid.across;
  const std::int64_t per_block = kReduceThreads / grid.across, terms = layout.reduced.combinations * layout.inner;
  for (std::int64_t first = blockIdx.x * per_block; first < grid.units;
       first += gridDim.x * per_block) {  // the same for the whole block
    const std::int64_t unit = first + thread / grid.across;
    Acc total = reducer.acc();
    if (unit < grid.units) {
      const typename R::Element* base = x + loop_offset(layout.kept, unit / grid.chunks);
      const std::int64_t begin = unit % grid.chunks * grid.chunk_terms, end = min(begin + grid.chunk_terms, terms);
      accumulate<R, kVector, true>(
          reducer, begin + lane * kVector, end, std::int64_t{grid.across} * kVector, vectors,
          [&](std::int64_t t) {
            return base + (layout.reduced.count == 0 ? t : nested_offset(layout.reduced, layout.inner, t));
          },
          &total);
    }
    for (int offset = min(grid.across, 32) / 2; offset > 0; offset /= 2)
      total = reducer.merge(total, R::shuffled(total, offset));
    if (grid.across > 32) {
      if (thread % 32 == 0) warps[thread / 32] = total;
      __syncthreads();
      if (thread == 0)
        for (int w = 1; w < kWarps; ++w) total = reducer.merge(total, warps[w]);
      __syncthreads();
    }
    if (lane == 0 && unit < grid.units) {
      if (grid.chunks == 1)
        out[unit] = reducer.finish(total);
      else
        partial[unit] = total;
    }
  }
}

// Merges the kPerThread totals of each thread into those of the first `across` threads, by thread number modulo
// `across`.
template <class R, int kPerThread>
__device__ inline void merge_block(const R& reducer, int across, typename R::Acc (&totals)[kPerThread],
                                   typename R::Acc* room) {
  const int thread = static_cast<int>(threadIdx.x);
  __syncthreads();
#pragma unroll
  for (int v = 0; v < kPerThread; ++v) room[v * kReduceThreads + thread] = totals[v];
  for (int half = kReduceThreads / 2; half >= across; half /= 2) {
    __syncthreads();
    if (thread < half) {
#pragma unroll
      for (int v = 0; v < kPerThread; ++v) {
        totals[v] = reducer.merge(totals[v], room[v * kReduceThreads + thread + half]);
        room[v * kReduceThreads + thread] = totals[v];
      }
    }
  }
}

// Keeps the inner dimension.
template <class R, int kVector>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_columns(R reducer, const __grid_constant__ ReduceLayout layout, ReduceGrid grid, bool vectors,
                   const typename R::Element* x, typename R::Out* out, typename R::Acc* partial) {
  using Acc = typename R::Acc;
  __shared__ Acc room[kVector * kReduceThreads];
  const int thread = static_cast<int>(threadIdx.x), across = grid.across;
  const std::int64_t rows = layout.reduced.combinations;
  for (std::int64_t unit = blockIdx.x; unit < grid.units; unit += gridDim.x) {
    const std::int64_t chunk = unit % grid.chunks, tile = unit / grid.chunks % grid.tiles,
                       kept = unit / grid.chunks / grid.tiles;
    const std::int64_t column = (tile * across + thread % across) * kVector;
    Acc totals[kVector];
#pragma unroll
    for (int v = 0; v < kVector; ++v) totals[v] = reducer.acc();
    if (column < layout.inner) {
      const typename R::Element* base = x + loop_offset(layout.kept, kept) + column;
      const std::int64_t begin = chunk * grid.chunk_terms, end = min(begin + grid.chunk_terms, rows);
      accumulate<R, kVector, false>(
          reducer, begin + thread / across, end, kReduceThreads / across, vectors,
          [&](std::int64_t row) { return base + loop_offset(layout.reduced, row); }, totals);
    }
    merge_block(reducer, across, totals, room);
    if (thread < across && column < layout.inner) {
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        if (grid.chunks == 1)
          out[kept * layout.inner + column + v] = reducer.finish(totals[v]);
        else
          partial[(kept * grid.chunks + chunk) * layout.inner + column + v] = totals[v];
      }
    }
  }
}

// partial: [kept, chunks, width]; out: [kept, width]. Each block handles tiles of `across` columns.
template <class R>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_merge(R reducer, std::int64_t kept_count, std::int64_t chunks, std::int64_t width, int across,
                 const typename R::Acc* partial, typename R::Out* out) {
  using Acc = typename R::Acc;
  __shared__ Acc room[kReduceThreads];
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t tiles = (width + across - 1) / across;
  for (std::int64_t unit = blockIdx.x; unit < kept_count * tiles; unit += gridDim.x) {
    const std::int64_t kept = unit / tiles, column = unit % tiles * across + thread % across;
    Acc totals[1] = {reducer.acc()};
    if (column < width)
      for (std::int64_t c = thread / across; c < chunks; c += kReduceThreads / across)
        totals[0] = reducer.merge(totals[0], partial[(kept * chunks + c) * width + column]);
    merge_block(reducer, across, totals, room);
    if (thread < across && column < width) out[kept * width + column] = reducer.finish(totals[0]);
  }
}

template <class R, int kVector>
cudaError_t launch_reduce(const R& reducer, const ReduceLaunch& l, cudaStream_t stream) {
  using Acc = typename R::Acc;
  static_assert(sizeof(Acc) <= kPartialBytes && sizeof(Acc) * kVector * kReduceThreads <= 48 * 1024);
  const auto* x = static_cast<const typename R::Element*>(l.x);
  auto* out = static_cast<typename R::Out*>(l.out);
  auto* partial = static_cast<Acc*>(l.partial);
  const bool vectors = aligned(x);
  const ReduceLayout& layout = l.layout;
  const cudaError_t status =
      layout.inner_reduced ? launch(reduce_rows<R, kVector>, blocks_for(l.grid.units, kReduceThreads / l.grid.across),
                                    kReduceThreads, stream, reducer, layout, l.grid, vectors, x, out, partial)
                           : launch(reduce_columns<R, kVector>, blocks_for(l.grid.units, 1), kReduceThreads, stream,
                                    reducer, layout, l.grid, vectors, x, out, partial);
  if (status != cudaSuccess || l.grid.chunks == 1) return status;
  const std::int64_t width = layout.inner_reduced ? 1 : layout.inner;
  int across = 1;
  while (across < 32 && across < width) across *= 2;
  const std::int64_t tiles = (width + across - 1) / across;
  return launch(reduce_merge<R>, blocks_for(layout.kept.combinations * tiles, 1), kReduceThreads, stream, reducer,
                layout.kept.combinations, l.grid.chunks, width, across, partial, out);
}

template <class R>
cudaError_t launch_reduce(const R& reducer, const ReduceLaunch& l, cudaStream_t stream) {
  using Element = typename R::Element;
  constexpr int kFull = std::is_integral_v<Element> ? 1 : kVectorOf<Element>;
  if constexpr (kFull > 1)
    if (l.grid.vector == kFull) return launch_reduce<R, kFull>(reducer, l, stream);
  if (l.grid.vector != 1) return cudaErrorInvalidValue;
  return launch_reduce<R, 1>(reducer, l, stream);
}

}  // namespace troupe::device
