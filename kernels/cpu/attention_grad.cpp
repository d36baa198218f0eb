// The gradient of attention: scores are computed again, block by block.
#include <troupe/kernels/cpu/attention_blocks.hpp>

namespace troupe {
namespace {

using attend::Block;
using attend::kBlock;

template <class T>
struct AttentionCall {
  const AttentionSizes& s;
  const T *q, *k, *v;
  const AttentionMask<T>& mask;
  const T *y, *log_sums, *dy;
};

// What the blocks of one head read of its queries.
template <class T>
struct HeadQueries {
  std::int64_t head, blocks;
  ScratchArray<T> queries;  // scaled and transposed: [blocks, depth, kBlock]
  ScratchArray<T> flows;    // dy, transposed: [blocks, value_depth, kBlock]
  ScratchArray<T> shifts;   // log_sums: [blocks, kBlock]
  ScratchArray<T> deltas;   // the sum of dy y: [blocks, kBlock]

  HeadQueries(const AttentionCall<T>& call, std::int64_t h)
      : head(h),
        blocks(attend::block_count(call.s.queries)),
        queries(blocks * call.s.depth * kBlock),
        flows(blocks * call.s.value_depth * kBlock),
        shifts(blocks * kBlock),
        deltas(blocks * kBlock) {
    const AttentionSizes& s = call.s;
    for (std::int64_t i = 0; i < blocks; ++i) {
      const std::int64_t first = head * s.queries + i * kBlock, rows = std::min(kBlock, s.queries - i * kBlock);
      attend::transpose_rows(call.q + first * s.depth, rows, s.depth, static_cast<T>(s.scale),
                             queries.data() + i * s.depth * kBlock);
      attend::transpose_rows(call.dy + first * s.value_depth, rows, s.value_depth, T{1},
                             flows.data() + i * s.value_depth * kBlock);
      for (std::int64_t n = 0; n < kBlock; ++n) {
        T sum = 0;
        for (std::int64_t c = 0; n < rows && c < s.value_depth; ++c)
          sum += call.dy[(first + n) * s.value_depth + c] * call.y[(first + n) * s.value_depth + c];
        deltas[i * kBlock + n] = sum;
        shifts[i * kBlock + n] = n < rows ? call.log_sums[first + n] : T{0};
      }
    }
  }
};

// The weights and the gradients of the scores of a block.
template <class T>
struct BlockFlow {
  ScratchArray<T> weights{kBlock * kBlock};
  ScratchArray<T> dscores{kBlock * kBlock};  // after the cap, as the mask sees it
  ScratchArray<T> slopes{kBlock * kBlock};

  void compute(const AttentionCall<T>& call, const HeadQueries<T>& head, const Block& block, std::int64_t i) const {
    const AttentionSizes& s = call.s;
    const std::int64_t keys = call.s.kv_head(head.head) * s.keys + block.key;
    block.by_key(call.k + keys * s.depth, s.depth, head.queries.data() + i * s.depth * kBlock, weights.data());
    block.cap(weights.data(), slopes.data());
    block.hide(call.mask, head.head, weights.data());
    block.by_key(call.v + keys * s.value_depth, s.value_depth, head.flows.data() + i * s.value_depth * kBlock,
                 dscores.data());
    const T* __restrict shift = head.shifts.data() + i * kBlock;
    const T* __restrict delta = head.deltas.data() + i * kBlock;
    T* const flows = dscores.data();
    block.for_rows(weights.data(), [=](T* __restrict row, std::int64_t first, std::int64_t last, std::int64_t j) {
      T* __restrict flow = flows + j * kBlock;
      for (std::int64_t n = first; n < last; ++n) {
        row[n] = VectorMath::exp(row[n] - shift[n]);
        flow[n] = row[n] * (flow[n] - delta[n]);
      }
    });
  }
  void multiply_slopes(const Block& block) const {
    if (block.s.softcap == 0) return;
    block.for_rows(dscores.data(), [&](T* row, std::int64_t first, std::int64_t last, std::int64_t j) {
      for (std::int64_t n = first; n < last; ++n) row[n] *= slopes[j * kBlock + n];
    });
  }
};

// Adds the gradients of the keys [begin, end) in blocks, and their share of dq.
template <class T>
void add_key_blocks(const AttentionCall<T>& call, std::int64_t head, std::int64_t begin, std::int64_t end, T* dq, T* dk,
                    T* dv) {
  const AttentionSizes& s = call.s;
  const HeadQueries<T> queries(call, head);
  const BlockFlow<T> flow;
  for (std::int64_t j = begin; j < end; ++j) {
    const std::int64_t keys = call.s.kv_head(head) * s.keys + j * kBlock;
    for (std::int64_t i = 0; i < queries.blocks; ++i) {
      const Block block(s, i, j);
      if (block.empty()) continue;
      const std::int64_t first = head * s.queries + i * kBlock;
      flow.compute(call, queries, block, i);
      flow.multiply_slopes(block);
      block.add_to_keys(flow.weights.data(), call.dy + first * s.value_depth, s.value_depth, dv + keys * s.value_depth);
      block.add_to_keys(flow.dscores.data(), call.q + first * s.depth, s.depth, dk + keys * s.depth);
      block.add_to_queries(flow.dscores.data(), call.k + keys * s.depth, s.depth, dq + first * s.depth);
    }
  }
}

// Heads are the parts, and if there are few of them also runs of keys, each of which then has a dq of its own.
std::int64_t key_parts(const AttentionSizes& s) {
  const std::int64_t heads = std::max<std::int64_t>(1, s.batch * s.kv_heads), blocks = attend::block_count(s.keys);
  return std::clamp<std::int64_t>(std::min(8 / heads, blocks / 8), 1, 8);
}

// The sums of the scores' gradients over what the mask was broadcast along. Heads that share a mask, in order.
template <class T>
void add_mask_gradient(const AttentionCall<T>& call, T* dmask) {
  const AttentionSizes& s = call.s;
  for (std::int64_t head = 0; head < s.batch * s.heads; ++head) {
    const HeadQueries<T> queries(call, head);
    const BlockFlow<T> flow;
    for (std::int64_t j = 0; j < attend::block_count(s.keys); ++j)
      for (std::int64_t i = 0; i < queries.blocks; ++i) {
        const Block block(s, i, j);
        if (block.empty()) continue;
        flow.compute(call, queries, block, i);
        T* const to = dmask + call.mask.heads[static_cast<std::size_t>(head)] + block.query * call.mask.query_stride +
                      block.key * call.mask.key_stride;
        block.for_rows(flow.dscores.data(), [&](const T* row, std::int64_t first, std::int64_t, std::int64_t key) {
          for (std::int64_t n = first; n < block.rows; ++n)
            to[key * call.mask.key_stride + n * call.mask.query_stride] += row[n];
        });
      }
  }
}

template <class T>
void scale_all(Parallelism& parallelism, T* values, std::int64_t count, T by) {
  parallelism.parallel_for(count, std::int64_t{1} << 15, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) values[i] *= by;
  });
}

}  // namespace

template <class T>
void attention_grad(Parallelism& parallelism, const AttentionSizes& s, const T* q, const T* k, const T* v,
                    const AttentionMask<T>& mask, const T* y, const T* log_sums, const T* dy,
                    const AttentionGradients<T>& out) {
  const AttentionCall<T> call{s, q, k, v, mask, y, log_sums, dy};
  const std::int64_t dq_count = s.batch * s.heads * s.queries * s.depth, kv_heads = s.batch * s.kv_heads;
  const std::int64_t blocks = attend::block_count(s.keys), parts = key_parts(s);
  const ScratchArray<T> others((parts - 1) * dq_count);
  std::fill_n(out.dq, dq_count, T{0});
  std::fill_n(others.data(), (parts - 1) * dq_count, T{0});
  std::fill_n(out.dk, kv_heads * s.keys * s.depth, T{0});
  std::fill_n(out.dv, kv_heads * s.keys * s.value_depth, T{0});
  parallelism.parallel_for(kv_heads * parts, 1, [&](std::int64_t part, std::int64_t) {
    const std::int64_t kv = part / parts, p = part % parts;
    T* const dq = p == 0 ? out.dq : others.data() + (p - 1) * dq_count;
    for (std::int64_t g = 0; g < s.group(); ++g) {
      const std::int64_t head = kv / s.kv_heads * s.heads + kv % s.kv_heads * s.group() + g;
      add_key_blocks(call, head, blocks * p / parts, blocks * (p + 1) / parts, dq, out.dk, out.dv);
    }
  });
  for (std::int64_t p = 1; p < parts; ++p)
    parallelism.parallel_for(dq_count, std::int64_t{1} << 15, [&, p](std::int64_t begin, std::int64_t end) {
      const T* from = others.data() + (p - 1) * dq_count;
      for (std::int64_t i = begin; i < end; ++i) out.dq[i] += from[i];
    });
  scale_all(parallelism, out.dq, dq_count, static_cast<T>(s.scale));
  scale_all(parallelism, out.dk, kv_heads * s.keys * s.depth, static_cast<T>(s.scale));
  if (!out.dmask) return;
  std::fill_n(out.dmask, out.mask_elements, T{0});
  add_mask_gradient(call, out.dmask);
}

template void attention_grad(Parallelism&, const AttentionSizes&, const float*, const float*, const float*,
                             const AttentionMask<float>&, const float*, const float*, const float*,
                             const AttentionGradients<float>&);
template void attention_grad(Parallelism&, const AttentionSizes&, const double*, const double*, const double*,
                             const AttentionMask<double>&, const double*, const double*, const double*,
                             const AttentionGradients<double>&);

}  // namespace troupe
