#include "troupe/kernels/cpu/attention.hpp"

#include <troupe/kernels/cpu/attention_blocks.hpp>

namespace troupe {
namespace {

using attend::Block;
using attend::kBlock;

// The running softmax of a block of queries.
template <class T>
struct OnlineSoftmax {
  T most[kBlock];    // the largest score so far
  T sum[kBlock];     // of exp(score - most)
  T factor[kBlock];  // by which what was summed before must be multiplied

  OnlineSoftmax() {
    std::fill_n(most, kBlock, attend::kNone<T>);
    std::fill_n(sum, kBlock, T{0});
  }
  // Turns scores into exp(score - most).
  void add(const Block& block, T* scores) {
    T before[kBlock], shift[kBlock];
    std::copy_n(most, kBlock, before);
    block.for_rows(scores, [&](const T* row, std::int64_t first, std::int64_t last, std::int64_t) {
      for (std::int64_t i = first; i < last; ++i) most[i] = row[i] > most[i] ? row[i] : most[i];
    });
    for (std::int64_t i = 0; i < kBlock; ++i) {
      shift[i] = most[i] == attend::kNone<T> ? T{0} : most[i];
      factor[i] = VectorMath::exp(before[i] - shift[i]);
      sum[i] *= factor[i];
    }
    block.for_rows(scores, [&](T* row, std::int64_t first, std::int64_t last, std::int64_t) {
      for (std::int64_t i = first; i < last; ++i) {
        row[i] = VectorMath::exp(row[i] - shift[i]);
        sum[i] += row[i];
      }
    });
  }
};

}  // namespace

template <class T>
void attention(Parallelism& parallelism, const AttentionSizes& s, const T* q, const T* k, const T* v,
               const AttentionMask<T>& mask, T* y, T* log_sums) {
  const std::int64_t query_blocks = attend::block_count(s.queries), key_blocks = attend::block_count(s.keys);
  parallelism.parallel_for(s.batch * s.heads * query_blocks, 1, [&](std::int64_t part, std::int64_t) {
    const std::int64_t head = part / query_blocks, i = part % query_blocks;
    const std::int64_t kv_head = s.kv_head(head);
    const ScratchArray<T> queries(s.depth * kBlock), scores(kBlock * kBlock);
    const std::int64_t first = head * s.queries + i * kBlock, rows = std::min(kBlock, s.queries - i * kBlock);
    attend::transpose_rows(q + first * s.depth, rows, s.depth, static_cast<T>(s.scale), queries.data());
    T* const out = y + first * s.value_depth;
    std::fill_n(out, rows * s.value_depth, T{0});
    OnlineSoftmax<T> softmax;
    for (std::int64_t j = 0; j < key_blocks; ++j) {
      const Block block(s, i, j);
      if (block.empty()) break;
      const std::int64_t keys = kv_head * s.keys + block.key;
      block.by_key(k + keys * s.depth, s.depth, queries.data(), scores.data());
      block.cap(scores.data(), static_cast<T*>(nullptr));
      block.hide(mask, head, scores.data());
      softmax.add(block, scores.data());
      if (j > 0)
        for (std::int64_t n = 0; n < rows; ++n)
          for (std::int64_t c = 0; c < s.value_depth; ++c) out[n * s.value_depth + c] *= softmax.factor[n];
      block.add_to_queries(scores.data(), v + keys * s.value_depth, s.value_depth, out);
    }
    for (std::int64_t n = 0; n < rows; ++n) {
      const bool none = softmax.most[n] == attend::kNone<T>;
      const T inverse = none ? T{0} : 1 / softmax.sum[n];
      for (std::int64_t c = 0; c < s.value_depth; ++c) out[n * s.value_depth + c] *= inverse;
      log_sums[first + n] =
          none ? std::numeric_limits<T>::infinity() : softmax.most[n] + VectorMath::log(softmax.sum[n]);
    }
  });
}

template void attention(Parallelism&, const AttentionSizes&, const float*, const float*, const float*,
                        const AttentionMask<float>&, float*, float*);
template void attention(Parallelism&, const AttentionSizes&, const double*, const double*, const double*,
                        const AttentionMask<double>&, double*, double*);

}  // namespace troupe
