// Functions on texts for pipelines, each a line:
//
//   const auto lines = data::csv("reviews.tsv", ...);                                // text string[], label i64[]
//   const auto words = texts::learn_vocabulary(lines, "text", {.most = 10'000});     // scheduler/data/vocabulary.hpp
//   const auto train = lines.map(texts::vectorize("text", words, {.length = 64}));  // text i64[64], label i64[]
//
// Each works on the component that it names, strings. Words are those of graph/words.hpp; ids are those of
// layers::text_vectorization() and string_lookup(), so what a pipeline makes fits a model with these layers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <troupe/graph/data/pipeline.hpp>
#include <troupe/graph/words.hpp>

namespace troupe::texts {

using data::Transformation;
using Vocabulary = std::vector<std::string>;

// The words as in WordOptions.
struct VectorizeOptions {
  VectorOutput output = VectorOutput::ids;
  std::int64_t length = 0;  // of ids: cut or padded with 0 to it; 0: all, of unknown length
  bool lower = true;
  bool strip_punctuation = true;
  std::string separator{};
  bool characters = false;
  std::int64_t ngrams = 1;
};

// Lower case and without punctuation: strings of any shape to as many.
Transformation standardize(const std::string& component, const WordOptions& options = {});
// The words of a text, string [] to string [?].
Transformation split(const std::string& component, const WordOptions& options = {});
// Strings to i64 of their shape: 0 is a word that is not in the vocabulary, the first of the vocabulary is 1.
Transformation lookup(const std::string& component, const Vocabulary& vocabulary);
// A text, string [], to ids i64 [length]: 0 is padding, 1 a word that is not in the vocabulary, the first of the
// vocabulary is 2. multi_hot (0 or 1) and count: f32 [1 + vocabulary], 0 for words not in it.
Transformation vectorize(const std::string& component, const Vocabulary& vocabulary,
                         const VectorizeOptions& options = {});

}  // namespace troupe::texts
