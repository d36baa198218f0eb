#include "troupe/kernels/common/attention_geometry.hpp"

#include <algorithm>

#include <troupe/messages/attributes.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {

AttentionSizes attention_options(const Attributes& a) {
  return {.scale = a.real("scale"),
          .softcap = a.real("softcap"),
          .causal = a.boolean("causal"),
          .causal_offset = a.integer("causal_offset")};
}

AttentionSizes attention_sizes(std::string_view op, AttentionSizes s, const Shape& q, const Shape& k, const Shape& v) {
  const int rank = q.rank();
  if (rank < 3 || k.rank() != rank || v.rank() != rank)
    invalid_argument("{}: q, k and v must have the same 3 or more dimensions, but are {}, {} and {}", op, q.to_string(),
                     k.to_string(), v.to_string());
  const Shape batch = q.sub(0, rank - 3);
  s.batch = batch.num_elements();
  s.heads = q[-3], s.queries = q[-2], s.depth = q[-1];
  s.kv_heads = k[-3], s.keys = k[-2], s.value_depth = v[-1];
  if (!(k.sub(0, rank - 3) == batch) || !(v.sub(0, rank - 3) == batch) || v[-3] != s.kv_heads || v[-2] != s.keys ||
      k[-1] != s.depth)
    invalid_argument("{}: q {}, k {} and v {} do not fit together", op, q.to_string(), k.to_string(), v.to_string());
  if (s.depth == 0) invalid_argument("{}: q and k have a depth of 0", op);
  if (s.kv_heads == 0 ? s.heads != 0 : s.heads % s.kv_heads != 0)
    invalid_argument("{}: the {} heads of q must be a multiple of the {} of k and v", op, s.heads, s.kv_heads);
  constexpr std::int64_t kMost = std::int64_t{1} << 40;  // sums of positions and offsets do not overflow
  s.causal_offset = std::clamp(s.causal_offset, -kMost, kMost);
  return s;
}

Shape attended_shape(const Shape& q, const Shape& v) {
  Shape out = q;
  out.set_dim(-1, v[-1]);
  return out;
}

bool has_no_mask(const Shape& mask) { return mask.rank() == 1 && mask[0] == 0; }

MaskGeometry mask_geometry(std::string_view op, const AttentionSizes& sizes, const Shape& q, const Shape& mask) {
  Shape scores = q;
  scores.set_dim(-1, sizes.keys);
  bool fits = mask.rank() <= scores.rank();
  for (int i = 1; fits && i <= mask.rank(); ++i) fits = mask[-i] == 1 || mask[-i] == scores[-i];
  if (!fits)
    invalid_argument("{}: the mask {} cannot be broadcast to the scores {}", op, mask.to_string(), scores.to_string());
  std::int64_t strides[kMaxRank] = {}, step = 1;
  for (int i = 1; i <= mask.rank(); ++i) {
    strides[scores.rank() - i] = mask[-i] == 1 ? 0 : step;
    step *= mask[-i];
  }
  MaskGeometry out{.leading = scores.rank() - 2};
  for (int i = 0; i < out.leading; ++i) {
    out.sizes[i] = scores[i];
    out.strides[i] = strides[i];
  }
  out.query_stride = strides[out.leading];
  out.key_stride = strides[out.leading + 1];
  return out;
}

}  // namespace troupe
