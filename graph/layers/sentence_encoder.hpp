// Encoders of sentences: BERT's (Devlin et al. 2019), whose vectors of tokens become one of the sentence (Reimers &
// Gurevych, "Sentence-BERT", 2019). The default is the shape of all-MiniLM-L6-v2; the similarity of two sentences is
// the product of their vectors.
//
//   const Symbol text = input("text", Shape{}, DType::string);
//   const Symbols tokens = layers::word_piece(vocabulary, 128, false).call({text});
//   Network network({text}, {{"embedding", sentence_encoder(tokens, {.vocabulary = std::ssize(vocabulary)})}});
#pragma once

#include <cstdint>

#include <troupe/graph/layers/network.hpp>

namespace troupe {

struct SentenceEncoderOptions {
  std::int64_t vocabulary = 30522;
  std::int64_t positions = 512;  // the most tokens of a sentence
  std::int64_t types = 2;        // of sentences in a pair
  std::int64_t features = 384;
  std::int64_t layers = 6;
  std::int64_t heads = 12;
  std::int64_t hidden = 1536;
  double dropout = 0;  // in training, of the embeddings, the parts of each layer and the attention's probabilities
};

// Ids and types [n, steps] of an integer dtype and a mask, bool [n, steps], false for padding -> f32 [n, features] of
// length 1: the mean over the tokens that are no padding. Embeddings of tokens, positions and types are summed and
// normalised; encoder layers normalise their sums, with gelu. Throws invalid_argument for invalid options.
Symbol sentence_encoder(const Symbols& ids_types_and_mask, const SentenceEncoderOptions& options);
// Makes the features of each step, before their mean: [n, steps, features].
Symbol token_encoder(const Symbols& ids_types_and_mask, const SentenceEncoderOptions& options);

}  // namespace troupe
