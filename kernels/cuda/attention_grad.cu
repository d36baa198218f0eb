// Device part of attention_launch.hpp: the gradient of attention. Scores are computed again, block by block, by each of
// the kernels: for keys and values, for queries, and for the mask.
#include <troupe/kernels/cuda/attention_tiles.cuh>

namespace troupe {
namespace device {
namespace {

// deltas = the sum of dy y of each query. A warp per query.
template <class Stored>
__global__ void __launch_bounds__(kBlockThreads)
    sum_flows(Stored stored, const typename Stored::Memory* y, const typename Stored::Memory* dy, std::int64_t rows,
              std::int64_t width, typename Stored::Type* deltas) {
  using U = typename Stored::Type;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t per_block = kBlockThreads / 32;
  for (std::int64_t row = blockIdx.x * per_block + threadIdx.x / 32; row < rows; row += gridDim.x * per_block) {
    U sum = 0;
    for (std::int64_t c = lane; c < width; c += 32)
      sum += load_one(stored, dy + row * width + c) * load_one(stored, y + row * width + c);
    for (int offset = 16; offset > 0; offset /= 2) sum += shuffle_xor(sum, offset);
    if (lane == 0) deltas[row] = sum;
  }
}

template <class Stored>
struct AttentionFlow {
  using U = typename Stored::Type;

  const AttentionGradLaunch& l;
  const Stored& stored;

  __device__ AttentionOperands<Stored> operands() const { return {l.forward, stored}; }
  // The weights of a block, and the gradients of its scores: behind the cap, as the mask sees them, or (if
  // `through_cap`) before it.
  __device__ void compute(TileRoom<U>& room, const ScoreBlock& b, bool through_cap, Own<U>& weights,
                          Own<U>& flows) const {
    const AttentionSizes& s = l.forward.sizes;
    const bool capped = through_cap && s.softcap != 0;
    Own<U> slopes;
    operands().scores(room, b, weights, &slopes);
    multiply_rows(stored, room, operands().queries(b, l.dy, s.value_depth), U{1},
                  operands().keys(b, l.forward.v, s.value_depth), flows);
    const std::int64_t first = b.head * s.queries + b.query;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int row = tile_down() + i;
      const bool there = row < b.rows;
      const U shift = there ? static_cast<const U*>(l.log_sums)[first + row] : U{0};
      const U delta = there ? static_cast<const U*>(l.deltas)[first + row] : U{0};
#pragma unroll
      for (int j = 0; j < kOwn; ++j) {
        weights[i][j] = there ? CudaMath::exp(weights[i][j] - shift) : U{0};
        flows[i][j] = weights[i][j] * (flows[i][j] - delta);
        if (capped) flows[i][j] *= slopes[i][j];
      }
    }
  }
};

// dk and dv of 64 keys.
template <class Stored>
__global__ void __launch_bounds__(kTileThreads)
    attend_grad_keys(Stored stored, const __grid_constant__ AttentionGradLaunch l, TileParts parts) {
  using U = typename Stored::Type;
  using Memory = typename Stored::Memory;
  __shared__ TileRoom<U> room;
  const AttentionSizes& s = l.forward.sizes;
  const AttentionFlow<Stored> flow{l, stored};
  for (std::int64_t part = blockIdx.x; part < parts.count; part += gridDim.x) {
    const std::int64_t column = part % parts.runs * kTile * kTilesAcross<U>, line = part / parts.runs;
    const std::int64_t kv = line / parts.lines, key = line % parts.lines * kTile;
    Own<U> dk[kTilesAcross<U>], dv[kTilesAcross<U>];
    clear_sums(dk);
    clear_sums(dv);
    for (std::int64_t g = 0; g < s.group(); ++g) {
      const std::int64_t head = kv / s.kv_heads * s.heads + kv % s.kv_heads * s.group() + g;
      for (std::int64_t query = 0; query < s.queries; query += kTile) {
        const ScoreBlock block(s, head, query, key);
        if (block.empty(s)) continue;
        Own<U> weights, flows;
        flow.compute(room, block, true, weights, flows);
        put_weights(weights, false, room);
        add_weighted(stored, room, flow.operands().queries(block, l.dy, s.value_depth), column, dv);
        __syncthreads();
        put_weights(flows, false, room);
        add_weighted(stored, room, flow.operands().queries(block, l.forward.q, s.depth), column, dk);
      }
    }
    const std::int64_t rows = min(std::int64_t{kTile}, s.keys - key), first = kv * s.keys + key;
    const U scale = static_cast<U>(s.scale);
    const U ones[kOwn] = {1, 1, 1, 1}, scales[kOwn] = {scale, scale, scale, scale};
    store_sums(stored, dk, scales, static_cast<Memory*>(l.dk) + first * s.depth, rows, s.depth, column);
    store_sums(stored, dv, ones, static_cast<Memory*>(l.dv) + first * s.value_depth, rows, s.value_depth, column);
  }
}

// dq of 64 queries.
template <class Stored>
__global__ void __launch_bounds__(kTileThreads)
    attend_grad_queries(Stored stored, const __grid_constant__ AttentionGradLaunch l, TileParts parts) {
  using U = typename Stored::Type;
  __shared__ TileRoom<U> room;
  const AttentionSizes& s = l.forward.sizes;
  const AttentionFlow<Stored> flow{l, stored};
  for (std::int64_t part = blockIdx.x; part < parts.count; part += gridDim.x) {
    const std::int64_t column = part % parts.runs * kTile * kTilesAcross<U>, line = part / parts.runs;
    const std::int64_t head = line / parts.lines, query = line % parts.lines * kTile;
    Own<U> dq[kTilesAcross<U>];
    clear_sums(dq);
    for (std::int64_t key = 0; key < s.keys; key += kTile) {
      const ScoreBlock block(s, head, query, key);
      if (block.empty(s)) break;
      Own<U> weights, flows;
      flow.compute(room, block, true, weights, flows);
      put_weights(flows, true, room);
      add_weighted(stored, room, flow.operands().keys(block, l.forward.k, s.depth), column, dq);
    }
    const U scale = static_cast<U>(s.scale);
    const U scales[kOwn] = {scale, scale, scale, scale};
    const std::int64_t first = head * s.queries + query;
    store_sums(stored, dq, scales, static_cast<typename Stored::Memory*>(l.dq) + first * s.depth,
               min(std::int64_t{kTile}, s.queries - query), s.depth, column);
  }
}

// The blocks of dmask: for each of its planes [queries, keys], 64 of either, or all that share one of its elements.
struct MaskParts {
  std::int64_t queries, keys;  // of a plane
  std::int64_t down, across, count;
};

template <class Stored>
__global__ void __launch_bounds__(kTileThreads)
    attend_grad_mask(Stored stored, const __grid_constant__ AttentionGradLaunch l, MaskParts parts) {
  using U = typename Stored::Type;
  __shared__ TileRoom<U> room;
  const AttentionSizes& s = l.forward.sizes;
  const AttentionFlow<Stored> flow{l, stored};
  for (std::int64_t part = blockIdx.x; part < parts.count; part += gridDim.x) {
    const std::int64_t plane = part / (parts.down * parts.across) * (parts.queries * parts.keys);
    const std::int64_t down = part / parts.across % parts.down * kTile, across = part % parts.across * kTile;
    const std::int64_t query_end = parts.queries == s.queries ? down + 1 : s.queries;
    const std::int64_t key_end = parts.keys == s.keys ? across + 1 : s.keys;
    Own<U> sums = {};
    for (std::int64_t head = 0; head < s.batch * s.heads; ++head) {
      if (l.forward.mask.geometry.begin(head) != plane) continue;
      for (std::int64_t key = across; key < key_end; key += kTile)
        for (std::int64_t query = down; query < query_end; query += kTile) {
          const ScoreBlock block(s, head, query, key);
          if (block.empty(s)) continue;
          Own<U> weights, flows;
          flow.compute(room, block, false, weights, flows);
#pragma unroll
          for (int i = 0; i < kOwn; ++i)
#pragma unroll
            for (int j = 0; j < kOwn; ++j) sums[i][j] += flows[i][j];
        }
    }
    // Elements of the mask are sums of those of a tile: of one, of a row, of a column, or of all.
    __syncthreads();
    put_weights(sums, false, room);
    __syncthreads();
    const bool by_row = parts.queries == s.queries, by_column = parts.keys == s.keys;
    const int rows = by_row ? kTile : 1, columns = by_column ? kTile : 1;
    for (int at = static_cast<int>(threadIdx.x); at < rows * columns; at += kTileThreads) {
      const int row = at / columns, column = at % columns;
      if (down + row >= parts.queries || across + column >= parts.keys) continue;
      U sum = 0;
      for (int i = row; i < (by_row ? row + 1 : kTile); ++i)
        for (int j = column; j < (by_column ? column + 1 : kTile); ++j) sum += room.weights[i][j];
      store_one(stored,
                static_cast<typename Stored::Memory*>(l.dmask) + plane + (down + row) * parts.keys + across + column,
                sum);
    }
  }
}

MaskParts mask_parts(const AttentionGradLaunch& l) {
  const AttentionSizes& s = l.forward.sizes;
  const MaskGeometry& g = l.forward.mask.geometry;
  MaskParts parts{g.query_stride == 0 ? 1 : s.queries, g.key_stride == 0 ? 1 : s.keys, 0, 0, 0};
  parts.down = (parts.queries + kTile - 1) / kTile;
  parts.across = (parts.keys + kTile - 1) / kTile;
  parts.count = l.mask_elements / (parts.queries * parts.keys) * parts.down * parts.across;
  return parts;
}

}  // namespace
}  // namespace device

cudaError_t launch_attention_grad(const AttentionGradLaunch& l, cudaStream_t stream) {
  return device::with_stored(l.forward.dtype, [&]<class Stored>(Stored stored) {
    using U = typename Stored::Type;
    using Memory = typename Stored::Memory;
    const AttentionSizes& s = l.forward.sizes;
    const std::int64_t heads = s.batch * s.heads, rows = heads * s.queries;
    const auto start = [&](auto kernel, const auto& parts) {
      if (parts.count == 0) return cudaSuccess;
      return device::launch(kernel, device::blocks_for(parts.count, 1), device::kTileThreads, stream, stored, l, parts);
    };
    cudaError_t status =
        device::launch(device::sum_flows<Stored>, device::blocks_for(rows, device::kBlockThreads / 32),
                       device::kBlockThreads, stream, stored, static_cast<const Memory*>(l.y),
                       static_cast<const Memory*>(l.dy), rows, s.value_depth, static_cast<U*>(l.deltas));
    if (status == cudaSuccess)
      status = start(device::attend_grad_keys<Stored>,
                     device::tile_parts<U>(s.batch * s.kv_heads, s.keys, std::max(s.depth, s.value_depth)));
    if (status == cudaSuccess)
      status = start(device::attend_grad_queries<Stored>, device::tile_parts<U>(heads, s.queries, s.depth));
    if (status == cudaSuccess && l.dmask && l.mask_elements > 0)
      status = start(device::attend_grad_mask<Stored>, device::mask_parts(l));
    return status;
  });
}

}  // namespace troupe
