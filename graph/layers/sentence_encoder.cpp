#include "troupe/graph/layers/sentence_encoder.hpp"

#include <fmt/core.h>

#include <troupe/graph/layers/layers.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr double kNormEpsilon = 1e-12;

}  // namespace

Symbol token_encoder(const Symbols& ids_types_and_mask, const SentenceEncoderOptions& o) {
  using namespace layers;
  if (ids_types_and_mask.size() != 3)
    invalid_argument("an encoder takes ids, types and a mask, not {} values", ids_types_and_mask.size());
  if (o.layers < 1) invalid_argument("an encoder has at least one layer, not {}", o.layers);
  const WeightOptions table{.initializer = initializers::truncated_normal(0, 0.02)};
  const auto rows = [&](std::int64_t count, const char* name, const Symbol& ids) {
    return embedding(count, o.features, {.table = table}).named(name)(ids);
  };
  const Symbol words = rows(o.vocabulary, "words", ids_types_and_mask[0]);
  const Symbol placed = position_embedding(o.positions, table).named("positions")(words);
  Symbol x = add().named("embeddings")(placed, rows(o.types, "types", ids_types_and_mask[1]));
  x = layer_norm({.epsilon = kNormEpsilon}).named("embeddings_norm")(x);
  if (o.dropout > 0) x = dropout(o.dropout).named("embeddings_dropout")(x);
  for (std::int64_t i = 0; i < o.layers; ++i)
    x = transformer_encoder(o.heads, o.hidden,
                            {.activation = Activation::gelu, .dropout = o.dropout, .epsilon = kNormEpsilon})
            .named(fmt::format("layer{}", i))(x, ids_types_and_mask[2]);
  return x;
}

Symbol sentence_encoder(const Symbols& ids_types_and_mask, const SentenceEncoderOptions& options) {
  const Symbol tokens = token_encoder(ids_types_and_mask, options);
  const Symbol mean = layers::global_average_pool().named("mean")(tokens, ids_types_and_mask[2]);
  return layers::unit_norm().named("unit")(mean);
}

}  // namespace troupe
