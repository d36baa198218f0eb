#include "apps/tags/encoder.hpp"

#include <algorithm>
#include <set>

#include <troupe/graph/layers/layers.hpp>
#include <troupe/graph/word_piece.hpp>

namespace troupe {
namespace {

std::vector<std::string> pieces_of(const std::vector<std::string>& words) {
  std::vector<std::string> out{"[PAD]", "[UNK]", "[CLS]", "[SEP]"}, whole;
  std::set<std::string> characters;
  for (char c = '!'; c <= '~'; ++c) characters.insert(std::string(1, texts::ascii_lower(c)));
  for (const std::string& word : words)
    texts::each_folded_word(word, [&](std::string_view folded) {
      texts::split_characters(folded, [&](std::string_view character) { characters.emplace(character); });
      whole.emplace_back(folded);
    });
  out.insert(out.end(), characters.begin(), characters.end());
  for (const std::string& character : characters) out.push_back("##" + character);
  std::set<std::string> known(out.begin(), out.end());
  for (std::string& word : whole)
    if (known.insert(word).second) out.push_back(std::move(word));
  return out;
}

}  // namespace

PretrainedEncoder tags_encoder(const TagsOptions& options, const std::vector<std::string>& words) {
  if (!options.weights.empty())
    return read_pretrained_encoder(file_system_of(options.weights), options.weights, options.heads);
  PretrainedEncoder out{.vocabulary = pieces_of(words)};
  out.options = {.vocabulary = std::ssize(out.vocabulary),
                 .positions = std::max<std::int64_t>(options.length, 512),
                 .features = options.features,
                 .layers = options.layers,
                 .heads = options.heads,
                 .hidden = 4 * options.features};
  return out;
}

Network tags_encoder_network(const PretrainedEncoder& encoder, const TagsOptions& options, std::int64_t tags) {
  const Symbol text = input("text", Shape{}, DType::string);
  const Symbols tokens = layers::word_piece(encoder.vocabulary, options.length).call({text});
  const Symbol mean = layers::global_average_pool()(token_encoder(tokens, encoder.options), tokens[2]);
  return Network({text}, {{"tags", layers::dense(tags).named("head")(mean)}});
}

}  // namespace troupe
