// Loops of reduce(), for one reducer: a type with
//   Lane             accumulates a block
//   Acc              merges blocks
//   lane(), acc()    initial values
//   step(lane, x)    adds an element to lane
//   join(lane, lane), merge(acc, lane), merge(acc, acc)
//   finish(acc)      result in the element type
#pragma once

#include <algorithm>
#include <array>

#include <troupe/kernels/cpu/ivdep.hpp>
#include <troupe/kernels/cpu/reduce.hpp>
#include <troupe/kernels/cpu/scratch.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {

inline constexpr std::int64_t kReduceBlock = 1024;  // elements, or 64 rows, accumulated in a Lane
inline constexpr std::int64_t kReduceLanes = 16;
inline constexpr std::int64_t kReduceRows = kReduceBlock / kReduceLanes;
inline constexpr std::int64_t kReduceTile = 512;     // columns
inline constexpr std::int64_t kReduceChunk = 65536;  // elements per unit of work

// Dimensions merged until kept and reduced ones alternate, split into both kinds, with their strides in x.
struct ReducePlan {
  struct Loop {
    std::int64_t size;
    std::int64_t stride;
  };
  // Outermost first.
  struct Loops {
    std::array<Loop, kMaxReduceDims> all;
    std::size_t count = 0;
  };
  Loops kept;              // except the innermost dimension
  Loops reduced;           // except the innermost dimension
  std::int64_t inner = 1;  // size of the innermost dimension
  bool inner_reduced = true;
  std::int64_t kept_count = 1;     // product of `kept`
  std::int64_t reduced_count = 1;  // product of `reduced`
};

ReducePlan plan_reduce(std::span<const ReduceDim> dims);

// Offset of combination `index` of the loops.
inline std::int64_t loop_offset(const ReducePlan::Loops& loops, std::int64_t index) {
  std::int64_t offset = 0;
  for (std::size_t d = loops.count; d-- > 0; index /= loops.all[d].size)
    offset += index % loops.all[d].size * loops.all[d].stride;
  return offset;
}

// Adds one contiguous row to `total`.
template <class R, class T>
void reduce_row(const R& reducer, const T* x, std::int64_t count, typename R::Acc& total) {
  std::array<typename R::Lane, kReduceLanes> lanes;
  for (; count > 0; count -= kReduceBlock, x += kReduceBlock) {
    const std::int64_t block = std::min(count, kReduceBlock);
    lanes.fill(reducer.lane());
    std::int64_t i = 0;
    for (; i + kReduceLanes <= block; i += kReduceLanes)
      for (std::int64_t j = 0; j < kReduceLanes; ++j)
        lanes[static_cast<std::size_t>(j)] = reducer.step(lanes[static_cast<std::size_t>(j)], x[i + j]);
    for (std::size_t j = 0; i < block; ++i, ++j) lanes[j] = reducer.step(lanes[j], x[i]);
    for (std::size_t half = kReduceLanes / 2; half > 0; half /= 2)
      for (std::size_t j = 0; j < half; ++j) lanes[j] = reducer.join(lanes[j], lanes[j + half]);
    total = reducer.merge(total, lanes[0]);
  }
}

// The innermost dimension is reduced. Unit of work: a chunk of the reduced elements of one result.
template <class R, class T>
void reduce_inner(Parallelism& parallelism, const R& reducer, const ReducePlan& plan, const T* x, T* out) {
  using Acc = typename R::Acc;
  const std::int64_t terms = plan.reduced_count * plan.inner;
  const std::int64_t chunks = std::max<std::int64_t>((terms + kReduceChunk - 1) / kReduceChunk, 1);
  const ScratchArray<Acc> partial(chunks > 1 ? plan.kept_count * chunks : 0);
  const std::int64_t grain = std::max<std::int64_t>(kReduceChunk / std::max<std::int64_t>(terms, 1), 1);
  parallelism.parallel_for(plan.kept_count * chunks, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const T* base = x + loop_offset(plan.kept, unit / chunks);
      std::int64_t at = unit % chunks * kReduceChunk;
      const std::int64_t stop = std::min(at + kReduceChunk, terms);
      Acc total = reducer.acc();
      while (at < stop) {
        const std::int64_t column = at % plan.inner, count = std::min(plan.inner - column, stop - at);
        reduce_row(reducer, base + loop_offset(plan.reduced, at / plan.inner) + column, count, total);
        at += count;
      }
      if (chunks == 1)
        out[unit] = reducer.finish(total);
      else
        partial[unit] = total;
    }
  });
  if (chunks == 1) return;
  for (std::int64_t o = 0; o < plan.kept_count; ++o) {
    Acc total = reducer.acc();
    for (std::int64_t c = 0; c < chunks; ++c) total = reducer.merge(total, partial[o * chunks + c]);
    out[o] = reducer.finish(total);
  }
}

// Adds rows [begin, end) of a tile of columns to totals.
template <class R, class T>
void reduce_tile(const R& reducer, const ReducePlan& plan, const T* x, std::int64_t columns, std::int64_t begin,
                 std::int64_t end, typename R::Acc* totals) {
  std::array<typename R::Lane, kReduceTile> lanes;
  for (std::int64_t first = begin; first < end; first += kReduceRows) {
    std::fill_n(lanes.begin(), columns, reducer.lane());
    for (std::int64_t row = first; row < std::min(first + kReduceRows, end); ++row) {
      const T* from = x + loop_offset(plan.reduced, row);
      auto* to = lanes.data();
      TROUPE_IVDEP
      for (std::int64_t k = 0; k < columns; ++k) to[k] = reducer.step(to[k], from[k]);
    }
    for (std::int64_t k = 0; k < columns; ++k) totals[k] = reducer.merge(totals[k], lanes[static_cast<std::size_t>(k)]);
  }
}

// The innermost dimension is kept. Unit of work: a chunk of the rows of a tile of columns.
template <class R, class T>
void reduce_outer(Parallelism& parallelism, const R& reducer, const ReducePlan& plan, const T* x, T* out) {
  using Acc = typename R::Acc;
  const std::int64_t tiles = (plan.inner + kReduceTile - 1) / kReduceTile;
  const std::int64_t width = std::min(plan.inner, kReduceTile);
  const std::int64_t chunk_rows = std::max(kReduceRows, kReduceChunk / width);
  const std::int64_t chunks = std::max<std::int64_t>((plan.reduced_count + chunk_rows - 1) / chunk_rows, 1);
  const ScratchArray<Acc> partial(chunks > 1 ? plan.kept_count * chunks * plan.inner : 0);
  const std::int64_t per_unit = width * std::clamp<std::int64_t>(plan.reduced_count, 1, chunk_rows);
  const std::int64_t grain = std::max<std::int64_t>(kReduceChunk / per_unit, 1);
  parallelism.parallel_for(plan.kept_count * tiles * chunks, grain, [&](std::int64_t begin, std::int64_t end) {
    std::array<Acc, kReduceTile> totals;
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t chunk = unit % chunks, tile = unit / chunks % tiles, o = unit / chunks / tiles;
      const std::int64_t column = tile * kReduceTile, columns = std::min(kReduceTile, plan.inner - column);
      std::fill_n(totals.begin(), columns, reducer.acc());
      reduce_tile(reducer, plan, x + loop_offset(plan.kept, o) + column, columns, chunk * chunk_rows,
                  std::min((chunk + 1) * chunk_rows, plan.reduced_count), totals.data());
      if (chunks == 1)
        for (std::int64_t k = 0; k < columns; ++k)
          out[o * plan.inner + column + k] = reducer.finish(totals[static_cast<std::size_t>(k)]);
      else
        std::copy_n(totals.begin(), columns, partial.data() + (o * chunks + chunk) * plan.inner + column);
    }
  });
  if (chunks == 1) return;
  for (std::int64_t o = 0; o < plan.kept_count; ++o)
    for (std::int64_t k = 0; k < plan.inner; ++k) {
      Acc total = reducer.acc();
      for (std::int64_t c = 0; c < chunks; ++c)
        total = reducer.merge(total, partial[(o * chunks + c) * plan.inner + k]);
      out[o * plan.inner + k] = reducer.finish(total);
    }
}

template <class R, class T>
void run_reduce(Parallelism& parallelism, const R& reducer, const ReducePlan& plan, const T* x, T* out) {
  if (plan.inner_reduced)
    reduce_inner(parallelism, reducer, plan, x, out);
  else
    reduce_outer(parallelism, reducer, plan, x, out);
}

// One per file, called by reduce(). `out` has at least one element. Sums are divided by `divisor`.
void reduce_sums(Parallelism& parallelism, const ReducePlan& plan, const Tensor& x, Tensor& out, double divisor);
void reduce_square_sums(Parallelism& parallelism, const ReducePlan& plan, const Tensor& x, Tensor& out, double divisor);
Tensor reduce_products(Device& device, const ReducePlan& plan, const Tensor& x, Tensor out);  // `out`, or a cast of it
void reduce_extremes(Parallelism& parallelism, const ReducePlan& plan, const Tensor& x, Tensor& out, bool greatest);

}  // namespace troupe
