// Scaled dot product attention on raw row-major memory, in blocks of 64 queries and 64 keys: no more scores than those
// of a block exist at once (Dao 2023, "FlashAttention-2"). Scores are kept transposed, a row per key, so that the
// softmax runs along vectors and no product needs a transposed copy of keys or values.
#pragma once

#include <cstdint>
#include <vector>

#include <troupe/devices/device.hpp>
#include <troupe/kernels/common/attention_geometry.hpp>

namespace troupe {

// Broadcast to [batch, heads, queries, keys].
template <class T>
struct AttentionMask {
  const T* added = nullptr;           // to the scores, or null
  const bool* allowed = nullptr;      // false: no attention, or null
  std::vector<std::int64_t> heads{};  // where that of each batch and head begins
  std::int64_t query_stride = 0;
  std::int64_t key_stride = 0;
  bool exists() const { return added || allowed; }
};

// y [batch, heads, queries, value_depth]; log_sums [batch, heads, queries]: the logarithm of the sum of the
// exponentials of a query's scores. A query without keys gets y = 0, and infinity.
template <class T>
void attention(Parallelism& parallelism, const AttentionSizes& sizes, const T* q, const T* k, const T* v,
               const AttentionMask<T>& mask, T* y, T* log_sums);

template <class T>
struct AttentionGradients {
  T* dq = nullptr;
  T* dk = nullptr;
  T* dv = nullptr;
  T* dmask = nullptr;  // null: not wanted
  std::int64_t mask_elements = 0;
};
template <class T>
void attention_grad(Parallelism& parallelism, const AttentionSizes& sizes, const T* q, const T* k, const T* v,
                    const AttentionMask<T>& mask, const T* y, const T* log_sums, const T* dy,
                    const AttentionGradients<T>& out);

}  // namespace troupe
