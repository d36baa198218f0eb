// Builder API for attention.
#pragma once

#include <optional>

#include <troupe/graph/builder/core.hpp>

namespace troupe {

struct AttentionOptions {
  // Broadcast to [..., heads, queries, keys]. bool: where there is attention; of q's dtype: added to the scores.
  Output mask{};
  bool causal = false;             // query t attends to keys up to t + causal_offset
  std::int64_t causal_offset = 0;  // the number of keys before query 0, as of a cache
  std::optional<double> scale{};   // default: 1 / sqrt(depth), which must be known then
  double softcap = 0;              // scores become softcap tanh(score / softcap); 0: they stay
  Name name{};
};
// Scaled dot product attention (Vaswani et al. 2017) in blocks that never hold all scores (Dao 2023): y = softmax(scale
// q k' + mask) v over the keys. q [..., heads, queries, depth], k [..., kv_heads, keys, depth], v [..., kv_heads, keys,
// value_depth] -> y [..., heads, queries, value_depth]. `heads` is a multiple of kv_heads; as many consecutive heads
// share keys and values. A query that attends to no key gets zeros. Differentiable, also in an added mask; a second
// derivative holds all scores.
Output attention(Output q, Output k, Output v, AttentionOptions options = {});

struct RotaryOptions {
  // Pairs of elements that are rotated: 2i and 2i + 1 (GPT-J), else i and i + half (GPT-NeoX).
  bool interleaved = false;
  Name name{};
};
// Rotary position embedding (Su et al. 2021): rotates pair i of x [..., d] by an angle with the given cosine and sine
// [..., half], which are broadcast to x's other dimensions. Elements beyond 2 half stay. The last dimensions must be
// known.
Output rotary_embedding(Output x, Output cos, Output sin, RotaryOptions options = {});

}  // namespace troupe
