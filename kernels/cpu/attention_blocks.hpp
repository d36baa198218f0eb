// A block of scores, for attention.cpp and attention_grad.cpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include <troupe/kernels/cpu/attention.hpp>
#include <troupe/kernels/cpu/gemm_cached.hpp>
#include <troupe/kernels/cpu/scratch.hpp>
#include <troupe/kernels/cpu/vector_math.hpp>

namespace troupe::attend {

inline constexpr std::int64_t kBlock = 64;
inline constexpr std::int64_t kStrip = 16;

template <class T>
constexpr T kNone = -std::numeric_limits<T>::infinity();

template <class T>
void block_product(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b, T* c,
                   std::int64_t c_stride, bool accumulate) {
  if (m <= 0 || n <= 0) return;
  if constexpr (std::is_same_v<T, float>)
    if (has_gemm_cached() && k > 0) return gemm_cached(m, n, k, a, b, c, c_stride, accumulate);
  gemm<T>(m, n, k, a, b, c, c_stride, accumulate);
}

// Rows [count, width] transposed, with factor `scale`: columns beyond the rows are 0.
template <class T>
void transpose_rows(const T* rows, std::int64_t count, std::int64_t width, T scale, T* out) {
  for (std::int64_t i = 0; i < kBlock; ++i)
    for (std::int64_t j = 0; j < width; ++j) out[j * kBlock + i] = i < count ? rows[i * width + j] * scale : T{0};
}

// Queries [query, query + rows) and keys [key, key + columns) of one head. Scores are [columns, kBlock], by key. With a
// causal mask, a strip of keys has those of queries [first(strip), width()) only.
struct Block {
  const AttentionSizes& s;
  std::int64_t query, rows;
  std::int64_t key, columns;

  Block(const AttentionSizes& sizes, std::int64_t query_block, std::int64_t key_block)
      : s(sizes),
        query(query_block * kBlock),
        rows(std::min(kBlock, sizes.queries - query)),
        key(key_block * kBlock),
        columns(std::min(kBlock, sizes.keys - key)) {}

  std::int64_t width() const { return (rows + kStrip - 1) / kStrip * kStrip; }
  // The first query of the block that attends to a key, possibly beyond the block or negative.
  std::int64_t first_of(std::int64_t column) const { return key + column - s.causal_offset - query; }
  bool empty() const { return s.causal && first_of(0) >= rows; }
  bool full() const { return !s.causal || first_of(columns - 1) <= 0; }
  std::int64_t first(std::int64_t column) const {
    if (full()) return 0;
    return std::clamp<std::int64_t>(first_of(column / kStrip * kStrip), 0, width()) / kStrip * kStrip;
  }

  // Calls fn(begin, end, first) for runs of keys whose queries begin at the same `first`.
  template <class Fn>
  void for_keys(Fn fn) const {
    const std::int64_t step = full() ? columns : kStrip;
    for (std::int64_t begin = 0; begin < columns; begin += step)
      if (first(begin) < width()) fn(begin, std::min(columns, begin + step), first(begin));
  }
  // Calls fn(begin, end, keys) for runs of queries that attend to the first `keys` keys at most.
  template <class Fn>
  void for_queries(Fn fn) const {
    const std::int64_t step = full() ? rows : kStrip;
    for (std::int64_t begin = 0; begin < rows; begin += step) {
      const std::int64_t end = std::min(rows, begin + step);
      const std::int64_t seen = full() ? columns : std::clamp<std::int64_t>(end - first_of(0), 0, columns);
      fn(begin, end, seen);
    }
  }

  // out [columns, kBlock] = a [columns, depth] b [depth, kBlock]
  template <class T>
  void by_key(const T* a, std::int64_t depth, const T* b, T* out) const {
    for_keys([&](std::int64_t begin, std::int64_t end, std::int64_t first) {
      block_product<T>(end - begin, width() - first, depth, {a + begin * depth, depth, false},
                       {b + first, kBlock, false}, out + begin * kBlock + first, kBlock, false);
    });
  }
  // out [columns, depth] += p [columns, kBlock] b [rows, depth]
  template <class T>
  void add_to_keys(const T* p, const T* b, std::int64_t depth, T* out) const {
    for_keys([&](std::int64_t begin, std::int64_t end, std::int64_t first) {
      block_product<T>(end - begin, depth, rows - first, {p + begin * kBlock + first, kBlock, false},
                       {b + first * depth, depth, false}, out + begin * depth, depth, true);
    });
  }
  // out [rows, depth] += p' [rows, columns] b [columns, depth]
  template <class T>
  void add_to_queries(const T* p, const T* b, std::int64_t depth, T* out) const {
    for_queries([&](std::int64_t begin, std::int64_t end, std::int64_t seen) {
      if (seen > 0)
        block_product<T>(end - begin, depth, seen, {p + begin, kBlock, true}, {b, depth, false}, out + begin * depth,
                         depth, true);
    });
  }

  // Calls fn(row of scores, first, width, key of the block).
  template <class T, class Fn>
  void for_rows(T* scores, Fn fn) const {
    for_keys([&](std::int64_t begin, std::int64_t end, std::int64_t first) {
      for (std::int64_t j = begin; j < end; ++j) fn(scores + j * kBlock, first, width(), j);
    });
  }

  // Caps the scores; `slopes` (or null) gets the derivative.
  template <class T>
  void cap(T* scores, T* slopes) const {
    if (s.softcap == 0) return;
    const T most = static_cast<T>(s.softcap), inverse = static_cast<T>(1 / s.softcap);
    for_rows(scores, [&](T* row, std::int64_t first, std::int64_t last, std::int64_t j) {
      for (std::int64_t i = first; i < last; ++i) {
        const T t = VectorMath::tanh(row[i] * inverse);
        row[i] = most * t;
        if (slopes) slopes[j * kBlock + i] = 1 - t * t;
      }
    });
  }

  // Adds the mask of head `head`, and sets scores of what is not attended to to -inf.
  template <class T>
  void hide(const AttentionMask<T>& mask, std::int64_t head, T* scores) const {
    if (mask.exists()) {
      const std::int64_t base =
          mask.heads[static_cast<std::size_t>(head)] + query * mask.query_stride + key * mask.key_stride;
      for_rows(scores, [&](T* row, std::int64_t first, std::int64_t, std::int64_t j) {
        const std::int64_t at = base + j * mask.key_stride, step = mask.query_stride;
        if (mask.added)
          for (std::int64_t i = first; i < rows; ++i) row[i] += mask.added[at + i * step];
        else
          for (std::int64_t i = first; i < rows; ++i)
            if (!mask.allowed[at + i * step]) row[i] = kNone<T>;
      });
    }
    if (full()) return;
    for_rows(scores, [&](T* row, std::int64_t first, std::int64_t last, std::int64_t j) {
      std::fill(row + first, row + std::clamp<std::int64_t>(first_of(j), first, last), kNone<T>);
    });
  }
};

inline std::int64_t block_count(std::int64_t length) { return (length + kBlock - 1) / kBlock; }

}  // namespace troupe::attend
