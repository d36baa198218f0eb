// Layers: attention, positions and the blocks of transformers. Sequences are [n, steps, features].
#pragma once

#include <troupe/graph/layers/activations.hpp>
#include <troupe/graph/layers/network.hpp>

// Each function throws invalid_argument for options that no input fits.
namespace troupe::layers {

struct AttentionOptions {
  std::int64_t value_depth = 0;  // of each head; 0: depth
  std::int64_t kv_heads = 0;     // as many consecutive heads share keys and values (Ainslie et al. 2023); 0: heads
  std::int64_t features = 0;     // of the result; 0: those of the query
  // The last input is a mask, true where there is attention: bool [n, keys] or [n, queries, keys].
  bool takes_mask = false;
  bool causal = false;     // query t attends to keys up to t
  double rotary_base = 0;  // queries and keys are rotated by their positions, as rotary() does; 0: not
  double dropout = 0;      // rate of the attention's probabilities, in training
  std::int64_t seed = 0;
  bool use_bias = true;
  WeightOptions kernel{};  // of all four kernels, initialized by glorot_uniform()
  WeightOptions bias{};
  DType compute = DType::invalid;
};
// Of (x), (query, value) or (query, value, key), the key being the value if there is none (Vaswani et al. 2017):
// [n, queries, features]. Kernels are query_kernel [in, heads depth], key_kernel [in, kv_heads depth], value_kernel
// [in, kv_heads value_depth] and output_kernel [heads value_depth, features], with biases. A query that attends to no
// key gets the output's bias.
LayerPtr multi_head_attention(std::int64_t heads, std::int64_t depth, AttentionOptions options = {});

// x + sines and cosines of positions t at wavelengths from 2 pi to 2 pi max_wavelength: element 2i of a step is
// sin(t / max_wavelength^(2i / features)), element 2i + 1 its cosine (Vaswani et al. 2017).
LayerPtr position_encoding(double max_wavelength = 10000);
// x + the first rows of a learnt table [max_steps, features].
LayerPtr position_embedding(std::int64_t max_steps, WeightOptions table = {});
// Rotates pairs of features of x [..., steps, features] by angles t / base^(2i / features) (Su et al. 2021): i and
// i + features / 2, or 2i and 2i + 1 if interleaved.
LayerPtr rotary(double base = 10000, bool interleaved = false);

struct TransformerOptions {
  bool norm_first = false;  // normalises what goes into each part instead of the sums (Xiong et al. 2020)
  bool causal = false;      // of encoders; decoders always are
  Activation activation = Activation::relu;
  double dropout = 0;  // of the parts' results and the attention's probabilities, in training
  std::int64_t seed = 0;
  double epsilon = 1e-5;
  double rotary_base = 0;
};
// x, and perhaps a mask [n, steps] of its steps: self-attention and two dense layers, `hidden` wide inside, each with a
// sum around it. The features must be a multiple of the heads.
LayerPtr transformer_encoder(std::int64_t heads, std::int64_t hidden, TransformerOptions options = {});
// x, perhaps an encoder's result, and perhaps a mask [n, steps] of that: causal self-attention, attention to the
// encoder if given, and two dense layers.
LayerPtr transformer_decoder(std::int64_t heads, std::int64_t hidden, TransformerOptions options = {});

}  // namespace troupe::layers
