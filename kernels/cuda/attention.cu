// Device part of attention_launch.hpp: attention.
#include <troupe/kernels/cuda/attention_tiles.cuh>

namespace troupe {
namespace device {
namespace {

// combine() of the 16 threads that share rows of a tile.
template <class U, class Combine>
__device__ U across_tile(U value, Combine combine) {
  for (int offset = kTile / kOwn / 2; offset > 0; offset /= 2) value = combine(value, shuffle_xor(value, offset));
  return value;
}

// The running softmax of four queries.
template <class U>
struct OnlineSoftmax {
  U most[kOwn];  // the largest score so far
  U sum[kOwn];   // of exp(score - most), of this thread's keys

  __device__ OnlineSoftmax() {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      most[i] = -infinity_of(U{});
      sum[i] = 0;
    }
  }
  // Turns scores into exp(score - most), and what was summed before into the same.
  __device__ void add(Own<U>& tile, Own<U> (&sums)[kTilesAcross<U>]) {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const auto greater = [](U a, U b) { return b > a ? b : a; };
      U next = most[i];
#pragma unroll
      for (int j = 0; j < kOwn; ++j) next = greater(next, tile[i][j]);
      next = across_tile(next, greater);
      const U shift = next == -infinity_of(U{}) ? U{0} : next;
      const U factor = CudaMath::exp(most[i] - shift);
      most[i] = next;
      sum[i] *= factor;
#pragma unroll
      for (int j = 0; j < kOwn; ++j) sum[i] += tile[i][j] = CudaMath::exp(tile[i][j] - shift);
#pragma unroll
      for (int t = 0; t < kTilesAcross<U>; ++t)
#pragma unroll
        for (int j = 0; j < kOwn; ++j) sums[t][i][j] *= factor;
    }
  }
};

template <class Stored>
__global__ void __launch_bounds__(kTileThreads)
    attend(Stored stored, const __grid_constant__ AttentionLaunch l, TileParts parts, typename Stored::Memory* y,
           typename Stored::Type* log_sums) {
  using U = typename Stored::Type;
  __shared__ TileRoom<U> room;
  const AttentionSizes& s = l.sizes;
  const AttentionOperands<Stored> operands{l, stored};
  for (std::int64_t part = blockIdx.x; part < parts.count; part += gridDim.x) {
    const std::int64_t run = part % parts.runs, line = part / parts.runs;
    const std::int64_t head = line / parts.lines, query = line % parts.lines * kTile,
                       column = run * kTile * kTilesAcross<U>;
    OnlineSoftmax<U> softmax;
    Own<U> sums[kTilesAcross<U>];
    clear_sums(sums);
    for (std::int64_t key = 0; key < s.keys; key += kTile) {
      const ScoreBlock block(s, head, query, key);
      if (block.empty(s)) break;
      Own<U> tile;
      operands.scores(room, block, tile, nullptr);
      softmax.add(tile, sums);
      put_weights(tile, true, room);
      add_weighted(stored, room, operands.keys(block, l.v, s.value_depth), column, sums);
    }
    const std::int64_t rows = min(std::int64_t{kTile}, s.queries - query), first = head * s.queries + query;
    U inverse[kOwn];
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const U sum = across_tile(softmax.sum[i], [](U a, U b) { return a + b; });
      const bool none = softmax.most[i] == -infinity_of(U{});
      inverse[i] = none ? U{0} : 1 / sum;
      const int row = tile_down() + i;
      if (run == 0 && tile_across() == 0 && row < rows)
        log_sums[first + row] = none ? infinity_of(U{}) : softmax.most[i] + CudaMath::log(sum);
    }
    store_sums(stored, sums, inverse, y + first * s.value_depth, rows, s.value_depth, column);
  }
}

}  // namespace
}  // namespace device

cudaError_t launch_attention(const AttentionLaunch& l, void* y, void* log_sums, cudaStream_t stream) {
  return device::with_stored(l.dtype, [&]<class Stored>(Stored stored) {
    using U = typename Stored::Type;
    const AttentionSizes& s = l.sizes;
    const device::TileParts parts = device::tile_parts<U>(s.batch * s.heads, s.queries, s.value_depth);
    return device::launch(device::attend<Stored>, device::blocks_for(parts.count, 1), device::kTileThreads, stream,
                          stored, l, parts, static_cast<typename Stored::Memory*>(y), static_cast<U*>(log_sums));
  });
}

}  // namespace troupe
