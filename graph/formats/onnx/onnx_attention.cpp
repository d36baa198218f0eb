// ONNX's Attention and RotaryEmbedding (opset 23).
#include <troupe/graph/builder/array.hpp>
#include <troupe/graph/builder/attention.hpp>
#include <troupe/graph/formats/onnx/onnx_node.hpp>

namespace troupe {
namespace {

// [batch, positions, heads * depth] as [batch, positions, heads, depth].
Output split_heads(Output x, std::int64_t heads) {
  if (x.shape().rank() != 3 || x.shape()[2] == kUnknown)
    fail(Code::unimplemented, "the last dimension of {} must be known", x.shape().to_string());
  if (heads <= 0 || x.shape()[2] % heads != 0)
    invalid_argument("{} elements cannot be split into {} heads", x.shape()[2], heads);
  return reshape_copying_zeros(x, Integers{0, 0, heads, x.shape()[2] / heads});
}

Output join_heads(Output x) { return reshape_copying_zeros(x, Integers{0, 0, x.shape()[2] * x.shape()[3]}); }

void attention_node(OnnxNode& node) {
  if (node.wants(3)) fail(Code::unimplemented, "the output of the scores is not known: they never exist at once");
  if (node.has(6)) fail(Code::unimplemented, "input 6, the lengths of the keys, is not known");
  const bool causal = node.integer("is_causal", 0) != 0, flat = node.in(0).shape().rank() == 3;
  const double softcap = node.real("softcap", 0.0);
  if (softcap != 0 && node.has(3)) fail(Code::unimplemented, "a softcap together with a mask is not known");
  if (causal && node.has(4)) fail(Code::unimplemented, "is_causal together with past keys is not known");
  const auto part = [&](int index, const char* heads) {
    return flat ? transpose(split_heads(node.in(index), node.integer(heads)), {0, 2, 1, 3}) : node.in(index);
  };
  const Output q = part(0, "q_num_heads");
  Output k = part(1, "kv_num_heads");
  Output v = part(2, "kv_num_heads");
  if (node.has(4)) k = concat({node.in(4), k}, 2);
  if (node.has(5)) v = concat({node.in(5), v}, 2);
  AttentionOptions options{.causal = causal, .softcap = softcap};
  if (node.has(3)) options.mask = node.in(3);
  if (node.has_attr("scale")) options.scale = node.real("scale");
  const Output y = attention(q, k, v, std::move(options));
  node.set(0, flat ? join_heads(transpose(y, {0, 2, 1, 3})) : y);
  node.set(1, k);
  node.set(2, v);
}

void rotary_embedding_node(OnnxNode& node) {
  const Output x = node.in(0);
  const bool flat = x.shape().rank() == 3;
  Output cosines = node.in(1);
  Output sines = node.in(2);
  if (node.has(3)) {  // caches by position
    cosines = gather(cosines, node.in(3));
    sines = gather(sines, node.in(3));
  }
  const std::int64_t heads_axis = flat ? 2 : 1;  // of [batch, positions, heads, depth], or heads before positions
  cosines = expand_dims(cosines, Integers{heads_axis});
  sines = expand_dims(sines, Integers{heads_axis});
  const Output parts = flat ? split_heads(x, node.integer("num_heads")) : x;
  const std::int64_t turned = node.integer("rotary_embedding_dim", 0);
  if (turned != 0 && cosines.shape().rank() > 0 && cosines.shape()[-1] != turned / 2)
    invalid_argument("rotary_embedding_dim is {}, but there are {} angles", turned, cosines.shape()[-1]);
  const Output y = rotary_embedding(parts, cosines, sines, {.interleaved = node.integer("interleaved", 0) != 0});
  node.set(flat ? reshape_like(y, x) : y);
}

constexpr OnnxOp kAttentionOps[] = {
    {"Attention", attention_node},
    {"RotaryEmbedding", rotary_embedding_node},
};

}  // namespace

std::span<const OnnxOp> onnx_attention_ops() { return kAttentionOps; }

}  // namespace troupe
