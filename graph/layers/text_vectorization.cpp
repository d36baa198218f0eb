// The layers that turn texts into ids or counts of words, and into pieces of words.
#include <algorithm>
#include <set>

#include <troupe/graph/layers/preprocessing.hpp>
#include <troupe/graph/layers/standard_layer.hpp>
#include <troupe/graph/word_piece.hpp>

namespace troupe {
namespace {

using Vocabulary = std::vector<std::string>;

// ASCII punctuation, as Keras strips it.
constexpr const char* kPunctuation = R"([!-/:-@\[-`{-~])";

Tensor string_vector(const Vocabulary& texts) { return Tensor::of<std::string>(Shape{std::ssize(texts)}, texts); }

Ragged words_of(const LayerConfig& config, Output x) {
  if (config.options.boolean("lower")) x = string_lower(x);
  if (config.options.boolean("strip_punctuation")) x = regex_replace(x, kPunctuation, "");
  const Ragged words = string_split(x, config.options.string("separator"));
  const std::int64_t ngrams = config.options.integer("ngrams");
  return ngrams == 1 ? words : string_ngrams(words, {.min_length = 1, .max_length = ngrams});
}

// The place of each word in the vocabulary plus `first`, or `first` - 1.
Output numbers_of(const LayerConfig& config, Output words, std::int64_t first) {
  const Vocabulary& vocabulary = config.options.get<Vocabulary>("vocabulary");
  return table_find(words, constant(*words.graph, string_vector(vocabulary))) + static_cast<double>(first);
}

// ids [m] of rows at row_splits [n + 1] -> [n, length], 0 after each row.
Output padded_rows(Output ids, Output row_splits, std::int64_t length) {
  const Output count = shape_of(row_splits) - 1.0;
  const Output begins = slice(row_splits, {0}, count);
  const Output ends = slice(row_splits, {1}, {-1});
  const Output lengths = ends - begins;
  const Output columns = length > 0 ? constant(*ids.graph, length) : max(lengths);
  const Output steps = range(columns);
  const Output places = expand_dims(begins, {1}) + steps;
  const Output exists = less(steps, expand_dims(lengths, {1}));
  const Output behind = element_count(ids);  // where a 0 follows the ids
  const Output all = pad(ids, Integers{0}, Integers{1});
  const Output rows = gather(all, select(exists, places, behind));
  return length == 0 ? rows : reshape(rows, Shape{kUnknown, length});
}

// How often each number in [0, numbers) occurs in each row: [n, numbers].
Output counts_of(Output ids, const Ragged& words, std::int64_t numbers, DType dtype) {
  const Output rows = row_ids(words);
  const Output flat = rows * static_cast<double>(numbers) + ids;
  const Output splits = element_count(words.row_splits);
  const Output places = (splits - 1.0) * static_cast<double>(numbers);
  const Output ones = cast(ones_like(ids), dtype);
  return reshape(unsorted_segment_sum(ones, flat, places), Shape{kUnknown, numbers});
}

Output apply_text_vectorization(const LayerConfig& config, LayerContext& context, Output x) {
  if (x.dtype() != DType::string) invalid_argument("the input is {}, but must be string", name(x.dtype()));
  require_rank(x, 1, 2, "[n] or [n, 1]");
  if (x.shape().rank() == 2) x = squeeze(x, {1});
  const Ragged words = words_of(config, x);
  const std::string& output = config.options.string("output");
  if (output == "ids")
    return padded_rows(numbers_of(config, words.values, 2), words.row_splits, config.options.integer("length"));
  const auto numbers = static_cast<std::int64_t>(config.options.get<Vocabulary>("vocabulary").size()) + 1;
  const Output ids = numbers_of(config, words.values, 1);
  const Output counts = counts_of(ids, words, numbers, real_type(context, x));
  return output == "count" ? counts : minimum(counts, scalar_like(counts, 1));
}

void check_text_vectorization(const LayerConfig& config) {
  require_one_of(config, "output", {"ids", "multi_hot", "count"});
  require_positive(config, "ngrams");
  if (const std::int64_t length = config.options.integer("length"); length < 0)
    invalid_argument("length must not be negative, but is {}", length);
  const Vocabulary& vocabulary = config.options.get<Vocabulary>("vocabulary");
  if (vocabulary.empty()) invalid_argument("the vocabulary is empty");
  if (std::set<std::string>(vocabulary.begin(), vocabulary.end()).size() != vocabulary.size())
    invalid_argument("a word is twice in the vocabulary");
}

Outputs apply_word_piece(const LayerConfig& config, LayerContext&, const Outputs& xs) {
  if (xs[0].dtype() != DType::string) invalid_argument("the input is {}, but must be string", name(xs[0].dtype()));
  const Tensor pieces = string_vector(config.options.get<Vocabulary>("vocabulary"));
  const auto [ids, mask] =
      word_piece(xs[0], constant(*xs[0].graph, pieces),
                 {.length = config.options.integer("length"), .pad = config.options.boolean("pad")});
  return {ids, zeros_like(ids), mask};
}

void check_word_piece(const LayerConfig& config) {
  if (const std::int64_t length = config.options.integer("length"); length < 2)
    invalid_argument("length must be at least 2, for [CLS] and [SEP], but is {}", length);
  const texts::WordPieces checked(config.options.get<Vocabulary>("vocabulary"));
}

}  // namespace

std::span<const LayerKind> text_kinds() {
  static const std::vector<LayerKind> kinds = {
      {.name = "text_vectorization",
       .options = {{"vocabulary", Vocabulary{}},
                   {"output", "ids"},
                   {"length", std::int64_t{0}},
                   {"lower", true},
                   {"strip_punctuation", true},
                   {"separator", ""},
                   {"ngrams", std::int64_t{1}}},
       .apply = of_one<apply_text_vectorization>,
       .check = check_text_vectorization},
      {.name = "word_piece",
       .options = {{"vocabulary", Vocabulary{}}, {"length", std::int64_t{0}}, {"pad", true}},
       .apply = apply_word_piece,
       .check = check_word_piece,
       .outputs = [](const LayerConfig&) { return 3; }},
  };
  return kinds;
}

namespace layers {

LayerPtr text_vectorization(std::vector<std::string> vocabulary, TextOptions options) {
  constexpr const char* kOutputs[] = {"ids", "multi_hot", "count"};
  return standard_layer({.kind = "text_vectorization",
                         .options = {{"vocabulary", std::move(vocabulary)},
                                     {"output", kOutputs[static_cast<std::size_t>(options.output)]},
                                     {"length", options.length},
                                     {"lower", options.lower},
                                     {"strip_punctuation", options.strip_punctuation},
                                     {"separator", std::move(options.separator)},
                                     {"ngrams", options.ngrams}}});
}

LayerPtr word_piece(std::vector<std::string> vocabulary, std::int64_t length, bool pad) {
  return standard_layer(
      {.kind = "word_piece", .options = {{"vocabulary", std::move(vocabulary)}, {"length", length}, {"pad", pad}}});
}

}  // namespace layers
}  // namespace troupe
