// A block of 64 by 64 scores, for attention.cu and attention_grad.cu. Its 256 threads are a square: thread (down,
// across) has 4 by 4 neighbouring elements of the block, and as many of each 64 columns of a result.
#pragma once

#include <troupe/kernels/cuda/attention_launch.hpp>
#include <troupe/kernels/cuda/cuda_math.cuh>
#include <troupe/kernels/cuda/launch.cuh>
#include <troupe/kernels/cuda/pack.cuh>
#include <troupe/kernels/cuda/stored.cuh>

namespace troupe::device {

inline constexpr int kTile = 64;
inline constexpr int kOwn = 4;       // rows and columns of a thread
inline constexpr int kUnrolled = 4;  // terms: enough to hide the latency of shared memory, and little code
inline constexpr int kTileThreads = (kTile / kOwn) * (kTile / kOwn);
// Terms of a product that are in shared memory at once.
template <class U>
inline constexpr int kTileStep = 64 / static_cast<int>(sizeof(U));
// Rows of shared memory are longer than their elements by a vector, to use all banks.
template <class U>
inline constexpr int kTilePitch = kTile + 16 / static_cast<int>(sizeof(U));
// Tiles of columns that a thread accumulates: as many as registers allow.
template <class U>
inline constexpr int kTilesAcross = sizeof(U) == 4 ? 2 : 1;

template <class U>
using Own = U[kOwn][kOwn];

template <class U>
struct alignas(16) TileRoom {
  U a[kTileStep<U>][kTilePitch<U>];
  U b[kTileStep<U>][kTilePitch<U>];
  U weights[kTile][kTilePitch<U>];
};
static_assert(sizeof(TileRoom<float>) <= 48 * 1024 && sizeof(TileRoom<double>) <= 48 * 1024);

__device__ inline int tile_down() { return static_cast<int>(threadIdx.x) / (kTile / kOwn) * kOwn; }
__device__ inline int tile_across() { return static_cast<int>(threadIdx.x) % (kTile / kOwn) * kOwn; }

template <class U>
__device__ inline void load_four(const U* from, U (&values)[kOwn]) {
  constexpr int kWidth = 16 / static_cast<int>(sizeof(U));
#pragma unroll
  for (int i = 0; i < kOwn; i += kWidth) {
    const Pack<U, kWidth> pack = load_pack<kWidth>(from + i);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) values[i + k] = pack.values[k];
  }
}

// Adds the outer product of four elements of each row.
template <class U>
__device__ inline void add_outer(const U* left, const U* right, Own<U>& sums) {
  U x[kOwn], y[kOwn];
  load_four(left, x);
  load_four(right, y);
#pragma unroll
  for (int i = 0; i < kOwn; ++i)
#pragma unroll
    for (int j = 0; j < kOwn; ++j) sums[i][j] += x[i] * y[j];
}

// Rows of a matrix in memory, row by row.
template <class Memory>
struct TileRows {
  const Memory* first;
  std::int64_t count;  // others are 0
  std::int64_t width;
};

// Columns [column, column + kTileStep) of the rows, transposed, to shared memory.
template <class Stored, class U>
__device__ inline void stage_transposed(const Stored& stored, const TileRows<typename Stored::Memory>& rows,
                                        std::int64_t column, U scale, U (*to)[kTilePitch<U>]) {
  for (int at = static_cast<int>(threadIdx.x); at < kTile * kTileStep<U>; at += kTileThreads) {
    const int k = at % kTileStep<U>, row = at / kTileStep<U>;
    const bool there = row < rows.count && column + k < rows.width;
    to[k][row] = there ? load_one(stored, rows.first + row * rows.width + column + k) * scale : U{0};
  }
}

// Rows [row, row + kTileStep) of columns [column, column + kTile), to shared memory.
template <class Stored, class U>
__device__ inline void stage_rows(const Stored& stored, const TileRows<typename Stored::Memory>& rows, int row,
                                  std::int64_t column, U (*to)[kTilePitch<U>]) {
  for (int at = static_cast<int>(threadIdx.x); at < kTile * kTileStep<U>; at += kTileThreads) {
    const int k = at / kTile, c = at % kTile;
    const bool there = row + k < rows.count && column + c < rows.width;
    to[k][c] = there ? load_one(stored, rows.first + (row + k) * rows.width + column + c) : U{0};
  }
}

// tile = scale a b', over all columns of a and b.
template <class Stored, class U>
__device__ inline void multiply_rows(const Stored& stored, TileRoom<U>& room,
                                     const TileRows<typename Stored::Memory>& a, U scale,
                                     const TileRows<typename Stored::Memory>& b, Own<U>& tile) {
#pragma unroll
  for (int i = 0; i < kOwn; ++i)
#pragma unroll
    for (int j = 0; j < kOwn; ++j) tile[i][j] = 0;
  for (std::int64_t column = 0; column < a.width; column += kTileStep<U>) {
    __syncthreads();
    stage_transposed(stored, a, column, scale, room.a);
    stage_transposed(stored, b, column, U{1}, room.b);
    __syncthreads();
#pragma unroll kUnrolled
    for (int k = 0; k < kTileStep<U>; ++k) add_outer(&room.a[k][tile_down()], &room.b[k][tile_across()], tile);
  }
}

// sums += weights' b, columns from `column` on, where weights[k] belongs to row k of b.
template <class Stored, class U>
__device__ inline void add_weighted(const Stored& stored, TileRoom<U>& room, const TileRows<typename Stored::Memory>& b,
                                    std::int64_t column, Own<U> (&sums)[kTilesAcross<U>]) {
  if (column >= b.width) return;
  for (int row = 0; row < b.count; row += kTileStep<U>) {
    __syncthreads();
#pragma unroll
    for (int t = 0; t < kTilesAcross<U>; ++t) stage_rows(stored, b, row, column + t * kTile, t == 0 ? room.a : room.b);
    __syncthreads();
#pragma unroll
    for (int t = 0; t < kTilesAcross<U>; ++t) {
      if (column + t * kTile >= b.width) break;
#pragma unroll kUnrolled
      for (int k = 0; k < kTileStep<U>; ++k)
        add_outer(&room.weights[row + k][tile_down()], &(t == 0 ? room.a : room.b)[k][tile_across()], sums[t]);
    }
  }
}

// Puts a tile into the weights, row by row or transposed.
template <class U>
__device__ inline void put_weights(const Own<U>& tile, bool transposed, TileRoom<U>& room) {
#pragma unroll
  for (int i = 0; i < kOwn; ++i)
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      if (transposed)
        room.weights[tile_across() + j][tile_down() + i] = tile[i][j];
      else
        room.weights[tile_down() + i][tile_across() + j] = tile[i][j];
    }
}

template <class U>
__device__ inline void clear_sums(Own<U> (&sums)[kTilesAcross<U>]) {
#pragma unroll
  for (int t = 0; t < kTilesAcross<U>; ++t)
#pragma unroll
    for (int i = 0; i < kOwn; ++i)
#pragma unroll
      for (int j = 0; j < kOwn; ++j) sums[t][i][j] = 0;
}

// Stores the sums times scale[row of the thread] to rows [0, count) of [count, width], columns from `column` on.
template <class Stored, class U>
__device__ inline void store_sums(const Stored& stored, const Own<U> (&sums)[kTilesAcross<U>], const U (&scale)[kOwn],
                                  typename Stored::Memory* to, std::int64_t count, std::int64_t width,
                                  std::int64_t column) {
#pragma unroll
  for (int t = 0; t < kTilesAcross<U>; ++t)
#pragma unroll
    for (int i = 0; i < kOwn; ++i)
#pragma unroll
      for (int j = 0; j < kOwn; ++j) {
        const std::int64_t row = tile_down() + i, at = column + t * kTile + tile_across() + j;
        if (row < count && at < width) store_one(stored, to + row * width + at, sums[t][i][j] * scale[i]);
      }
}

// Queries [query, query + rows) and keys [key, key + columns) of one head.
struct ScoreBlock {
  std::int64_t head, query, rows, key, columns;

  __device__ ScoreBlock(const AttentionSizes& s, std::int64_t head, std::int64_t query, std::int64_t key)
      : head(head),
        query(query),
        rows(min(std::int64_t{kTile}, s.queries - query)),
        key(key),
        columns(min(std::int64_t{kTile}, s.keys - key)) {}
  // No query attends to a key.
  __device__ bool empty(const AttentionSizes& s) const { return s.causal && key - s.causal_offset - query >= rows; }
};

// The operands of an attention in memory.
template <class Stored>
struct AttentionOperands {
  using U = typename Stored::Type;
  using Memory = typename Stored::Memory;

  const AttentionLaunch& l;
  const Stored& stored;

  __device__ TileRows<Memory> queries(const ScoreBlock& b, const void* q, std::int64_t width) const {
    return {static_cast<const Memory*>(q) + (b.head * l.sizes.queries + b.query) * width, b.rows, width};
  }
  __device__ TileRows<Memory> keys(const ScoreBlock& b, const void* k, std::int64_t width) const {
    return {static_cast<const Memory*>(k) + (l.sizes.kv_head(b.head) * l.sizes.keys + b.key) * width, b.columns, width};
  }

  // Capped and masked: -inf where a query does not attend to a key. `slopes` gets the derivative of the cap.
  __device__ void scores(TileRoom<U>& room, const ScoreBlock& b, Own<U>& tile, Own<U>* slopes) const {
    const AttentionSizes& s = l.sizes;
    multiply_rows(stored, room, queries(b, l.q, s.depth), static_cast<U>(s.scale), keys(b, l.k, s.depth), tile);
    const AttentionMaskLaunch& mask = l.mask;
    const std::int64_t base = mask.data ? mask.geometry.begin(b.head) : 0;
    const U most = static_cast<U>(s.softcap), inverse = static_cast<U>(s.softcap == 0 ? 0 : 1 / s.softcap);
#pragma unroll
    for (int i = 0; i < kOwn; ++i)
#pragma unroll
      for (int j = 0; j < kOwn; ++j) {
        const std::int64_t query = b.query + tile_down() + i, key = b.key + tile_across() + j;
        U score = tile[i][j];
        if (s.softcap != 0) {
          const U t = CudaMath::tanh(score * inverse);
          score = most * t;
          if (slopes) (*slopes)[i][j] = 1 - t * t;
        }
        if (key >= s.keys || (s.causal && key > query + s.causal_offset)) {
          score = -infinity_of(U{});
        } else if (mask.data && query < s.queries) {
          const std::int64_t at = base + query * mask.geometry.query_stride + key * mask.geometry.key_stride;
          if (!mask.boolean)
            score += load_one(stored, static_cast<const Memory*>(mask.data) + at);
          else if (!static_cast<const bool*>(mask.data)[at])
            score = -infinity_of(U{});
        }
        tile[i][j] = score;
      }
  }
};

// Numbers blocks of results: `lines` for each of `outer`, and for each of those the runs of columns that a block of
// threads accumulates.
struct TileParts {
  std::int64_t lines, runs, count;
};
template <class U>
TileParts tile_parts(std::int64_t outer, std::int64_t length, std::int64_t width) {
  constexpr int kColumns = kTile * kTilesAcross<U>;
  TileParts parts{(length + kTile - 1) / kTile, std::max<std::int64_t>(1, (width + kColumns - 1) / kColumns), 0};
  parts.count = outer * parts.lines * parts.runs;
  return parts;
}

}  // namespace troupe::device
