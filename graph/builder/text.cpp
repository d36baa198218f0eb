#include "troupe/graph/builder/text.hpp"

namespace troupe {
namespace {

Ragged ragged(const Outputs& outputs) { return {outputs[0], outputs[1]}; }

std::string to_string(Combiner combiner) {
  return combiner == Combiner::sum ? "sum" : combiner == Combiner::mean ? "mean" : "sqrtn";
}

}  // namespace

Output string_lower(Output x, Name name) { return add_op("StringLower", {std::move(x)}, {}, std::move(name)); }
Output string_upper(Output x, Name name) { return add_op("StringUpper", {std::move(x)}, {}, std::move(name)); }
Output string_length(Output x, Name name) { return add_op("StringLength", {std::move(x)}, {}, std::move(name)); }
Output string_strip(Output x, Name name) { return add_op("StringStrip", {std::move(x)}, {}, std::move(name)); }
Output string_join(const Outputs& xs, const std::string& separator, Name name) {
  return add_op("StringJoin", xs, {{"separator", separator}}, std::move(name));
}
Output string_reduce_join(Output x, const std::string& separator, Name name) {
  return add_op("StringReduceJoin", {std::move(x)}, {{"separator", separator}}, std::move(name));
}
Ragged string_split(Output x, const std::string& separator, Name name) {
  return ragged(add_outputs("StringSplit", {x}, {{"separator", separator}}, std::move(name)));
}
Output regex_full_match(Output x, const std::string& pattern, Name name) {
  return add_op("RegexFullMatch", {std::move(x)}, {{"pattern", pattern}}, std::move(name));
}
Output regex_replace(Output x, const std::string& pattern, const std::string& rewrite, RegexReplaceOptions options) {
  return add_op("RegexReplace", {std::move(x)},
                {{"pattern", pattern}, {"rewrite", rewrite}, {"global", options.global}}, std::move(options.name));
}
Output string_to_hash_bucket(Output x, std::int64_t buckets, std::int64_t seed, Name name) {
  return add_op("StringToHashBucket", {std::move(x)}, {{"buckets", buckets}, {"seed", seed}}, std::move(name));
}
Ragged string_ngrams(const Ragged& x, NGramOptions options) {
  return ragged(add_outputs("StringNGrams", {x.values, x.row_splits},
                            {{"min_length", options.min_length},
                             {"max_length", options.max_length},
                             {"separator", std::move(options.separator)}},
                            std::move(options.name)));
}
Output row_ids(const Ragged& x, Name name) { return add_op("RowIds", {x.values, x.row_splits}, {}, std::move(name)); }

Output table_find(Output x, Output keys, Name name) {
  return add_op("TableFind", {std::move(x), std::move(keys)}, {}, std::move(name));
}
Output table_lookup(Output x, Output keys, Output values, Output otherwise, Name name) {
  return add_op("TableLookup", {std::move(x), std::move(keys), std::move(values), std::move(otherwise)}, {},
                std::move(name));
}

Output embedding_lookup_sparse(Output table, const Ragged& ids, EmbeddingLookupOptions options) {
  Outputs inputs{table, ids.values, ids.row_splits};
  if (options.weights.valid()) inputs.push_back(options.weights);
  return add_op("EmbeddingLookupSparse", inputs, {{"combiner", to_string(options.combiner)}}, std::move(options.name));
}

PiecesOfWords word_piece(Output x, Output vocabulary, WordPieceOptions options) {
  const Outputs out = add_outputs("WordPiece", {x, vocabulary}, {{"length", options.length}, {"pad", options.pad}},
                                  std::move(options.name));
  return {.ids = out[0], .mask = out[1]};
}

Output string_normalizer(Output x, StringNormalizerOptions options) {
  return add_op("StringNormalizer", {std::move(x)},
                {{"change_case", std::move(options.change_case)},
                 {"is_case_sensitive", options.is_case_sensitive},
                 {"stopwords", std::move(options.stopwords)}},
                std::move(options.name));
}

Output tf_idf_vectorizer(Output x, TfIdfOptions options) {
  return add_op("TfIdfVectorizer", {std::move(x)},
                {{"mode", std::move(options.mode)},
                 {"min_gram_length", options.min_gram_length},
                 {"max_gram_length", options.max_gram_length},
                 {"max_skip_count", options.max_skip_count},
                 {"ngram_counts", std::move(options.ngram_counts)},
                 {"ngram_indexes", std::move(options.ngram_indexes)},
                 {"pool_integers", std::move(options.pool_integers)},
                 {"pool_strings", std::move(options.pool_strings)},
                 {"weights", std::move(options.weights)}},
                std::move(options.name));
}

}  // namespace troupe
