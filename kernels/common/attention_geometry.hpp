// Sizes of attention, and where its mask is, for all device types.
#pragma once

#include <cstdint>
#include <string_view>

#include <troupe/kernels/common/host_device.hpp>
#include <troupe/messages/shape.hpp>

namespace troupe {

class Attributes;

struct AttentionSizes {
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // heads / kv_heads consecutive heads share keys and values
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t depth = 0;
  std::int64_t value_depth = 0;
  double scale = 1;
  double softcap = 0;   // scores become softcap tanh(score / softcap); 0: they stay
  bool causal = false;  // query t attends to keys up to t + causal_offset
  std::int64_t causal_offset = 0;

  TROUPE_HOST_DEVICE std::int64_t group() const { return kv_heads == 0 ? 1 : heads / kv_heads; }
  // The head of keys and values of a head, both counted over the whole batch.
  TROUPE_HOST_DEVICE std::int64_t kv_head(std::int64_t head) const {
    return head / heads * kv_heads + head % heads / group();
  }
};

// The options that are attributes; sizes are 0.
AttentionSizes attention_options(const Attributes& attributes);
// With the sizes of q [batch..., heads, queries, depth], k and v. Throws invalid_argument, naming `op`, if they do not
// fit together.
AttentionSizes attention_sizes(std::string_view op, AttentionSizes options, const Shape& q, const Shape& k,
                               const Shape& v);
// Of y and its gradient.
Shape attended_shape(const Shape& q, const Shape& v);

// A vector of no elements is no mask.
bool has_no_mask(const Shape& mask);

// A mask broadcast to the scores [leading..., queries, keys]: strides are 0 where it is broadcast.
struct MaskGeometry {
  int leading = 0;  // dimensions, those of batch and heads
  std::int64_t sizes[kMaxRank] = {};
  std::int64_t strides[kMaxRank] = {};
  std::int64_t query_stride = 0;
  std::int64_t key_stride = 0;

  // Where the mask of a head begins.
  TROUPE_HOST_DEVICE std::int64_t begin(std::int64_t head) const {
    std::int64_t at = 0;
    for (int i = leading - 1; i >= 0; --i) {
      at += head % sizes[i] * strides[i];
      head /= sizes[i];
    }
    return at;
  }
};
// Throws invalid_argument, naming `op`, if the mask cannot be broadcast to the scores.
MaskGeometry mask_geometry(std::string_view op, const AttentionSizes& sizes, const Shape& q, const Shape& mask);

}  // namespace troupe
