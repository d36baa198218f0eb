// Layers that turn raw features into numbers: they have no weights, but constants that may be learnt from data before.
//
//   FeatureStatistics statistics;
//   for (const Tensor& batch : batches) statistics.update(batch);
//   const Symbol scaled = layers::normalization(statistics.mean(), statistics.variance())(features);
//
//   VocabularyBuilder words;
//   for (const Tensor& texts : batches) words.update(split_words(texts));
//   const Symbol ids = layers::text_vectorization(words.strings(10000), {.length = 64})(text);
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/graph/layers/network.hpp>
#include <troupe/graph/words.hpp>

namespace troupe {

// Mean and variance of each feature, the last dimension, over any number of batches.
class FeatureStatistics {
 public:
  // [..., features] of a dtype of numbers. Throws invalid_argument for another number of features.
  void update(const Tensor& batch);
  // f32 [features]. Throw failed_precondition before the first update.
  Tensor mean() const;
  Tensor variance() const;  // the mean squared distance from the mean

 private:
  double count_ = 0;
  std::vector<double> means_, squares_;  // squares: sums of squared distances from the mean
};

// The distinct values of batches, by number of occurrences; of equally frequent ones the greater first, as in Keras.
class VocabularyBuilder {
 public:
  void update(const Tensor& values);  // string, i32 or i64
  void add(std::string_view word);
  // The `most` most frequent ones, of all but the empty string; 0: all. Throw failed_precondition for the other dtype.
  std::vector<std::string> strings(std::size_t most = 0) const;
  std::vector<std::int64_t> integers(std::size_t most = 0) const;

 private:
  texts::WordCounts strings_;
  std::map<std::int64_t, std::int64_t> integers_;
};

// The words of texts, a vector, as text_vectorization() makes them by default.
Tensor split_words(const Tensor& texts);

namespace layers {

// (x - mean) / max(sqrt(variance), 1e-7), in the weights' dtype; mean and variance are broadcast to x.
LayerPtr normalization(Tensor mean, Tensor variance);

// i64: the number of boundaries, which ascend, that are at most x.
LayerPtr discretization(std::vector<double> boundaries);
// Boundaries between `bins` bins of as many elements each, as far as equal elements allow.
std::vector<double> quantiles(const Tensor& values, std::int64_t bins);

enum class Encoding { one_hot, multi_hot, count };
// Integers in [0, categories): one_hot [...] -> [..., categories]; multi_hot (0 or 1) and count of each row: [..., k]
// ->
// [..., categories]. In the weights' dtype.
LayerPtr category_encoding(std::int64_t categories, Encoding encoding = Encoding::multi_hot);

// i64 in [0, buckets), of strings, or of integers by their text: the same on each machine.
LayerPtr hashing(std::int64_t buckets, std::int64_t seed = 0);

struct LookupOptions {
  // Numbers for what is not in the vocabulary, by a hash if there are several; 0: it becomes -1.
  std::int64_t out_of_vocabulary = 1;
  bool masks = false;  // "" (of integers 0) becomes 0, and all other numbers are one greater
};
// i64: the places in a vocabulary of distinct values, after those of out_of_vocabulary.
LayerPtr string_lookup(std::vector<std::string> vocabulary, LookupOptions options = {});
LayerPtr integer_lookup(std::vector<std::int64_t> vocabulary, LookupOptions options = {});
// Back: integers -> strings; "[UNK]" for out_of_vocabulary, "" for a masked one.
LayerPtr string_of_lookup(std::vector<std::string> vocabulary, LookupOptions options = {});

using TextOutput = texts::VectorOutput;
struct TextOptions {
  TextOutput output = TextOutput::ids;
  std::int64_t length = 0;  // of ids: rows are cut or padded with 0 to it; 0: to the longest row of the batch
  bool lower = true;
  bool strip_punctuation = true;  // of ASCII, and the separator if it is one
  std::string separator{};        // between words; "": white space
  std::int64_t ngrams = 1;        // runs of up to so many words are words, too
};
// Strings [n] or [n, 1] -> ids i64 [n, length]: 0 is padding, 1 a word that is not in the vocabulary, the first of the
// vocabulary is 2. multi_hot and count: [n, 1 + vocabulary] in the weights' dtype, 0 for words not in it.
LayerPtr text_vectorization(std::vector<std::string> vocabulary, TextOptions options = {});

// Strings [...] -> three results [..., length]: i64 numbers of the pieces of words, as BERT's uncased models cut them
// (graph/word_piece.hpp); i64 types, all 0; bool, whether a number is no padding. The vocabulary has [PAD], [UNK],
// [CLS] and [SEP]. A text becomes at most `length` numbers, [CLS] and [SEP] with it. `pad`: to `length`, otherwise to
// the longest text of the batch.
LayerPtr word_piece(std::vector<std::string> vocabulary, std::int64_t length, bool pad = true);

}  // namespace layers
}  // namespace troupe
