// Builder API for strings, lookup tables and embeddings. Strings are bytes; case changes concern ASCII letters only.
// Ragged results are (values [m], row_splits [n + 1], i64): row i is values[row_splits[i]] .. values[row_splits[i +
// 1]].
#pragma once

#include <troupe/graph/builder/core.hpp>

namespace troupe {

struct Ragged {
  Output values{};      // [m,...]
  Output row_splits{};  // i64 [n + 1], from 0 to m, ascending
};

Output string_lower(Output x, Name name = {});
Output string_upper(Output x, Name name = {});
Output string_length(Output x, Name name = {});  // i64, in bytes
// Strips ASCII white space at both ends.
Output string_strip(Output x, Name name = {});
// The strings of all xs, which are broadcast, with `separator` between.
Output string_join(const Outputs& xs, const std::string& separator = "", Name name = {});
// The strings of each row [...,n] joined to one [...].
Output string_reduce_join(Output x, const std::string& separator = "", Name name = {});
// The parts of each string of x [n]: between occurrences of `separator`, or, if it is "", of runs of white space, of
// which those at the ends are no parts.
Ragged string_split(Output x, const std::string& separator = "", Name name = {});
// Whether a string as a whole matches the pattern, in RE2's syntax (https://github.com/google/re2/wiki/Syntax).
Output regex_full_match(Output x, const std::string& pattern, Name name = {});
struct RegexReplaceOptions {
  bool global = true;  // all matches, otherwise the first
  Name name{};
};
// Matches replaced by `rewrite`, in which \1 to \9 are the groups of the match and \0 all of it.
Output regex_replace(Output x, const std::string& pattern, const std::string& rewrite,
                     RegexReplaceOptions options = {});
// i64 in [0, buckets): FNV-1a of the bytes, mixed with `seed` and spread evenly. The same in each version and on each
// machine.
Output string_to_hash_bucket(Output x, std::int64_t buckets, std::int64_t seed = 0, Name name = {});
struct NGramOptions {
  std::int64_t min_length = 1;
  std::int64_t max_length = 2;
  std::string separator = " ";
  Name name{};
};
// The runs of min_length to max_length strings of each row, joined; shorter ones first.
Ragged string_ngrams(const Ragged& x, NGramOptions options = {});
// The row of each value: [m], i64 in [0, n).
Output row_ids(const Ragged& x, Name name = {});

// values[i] where x equals keys[i], else `otherwise`; keys [n] of x's dtype (string, i32, i64, f32 or f64; NaN equals
// NaN), which must be distinct, values [n] of any dtype. With constant keys the table is built once.
Output table_lookup(Output x, Output keys, Output values, Output otherwise, Name name = {});
// The position of each element of x in keys [n], -1 if it is not there; i64.
Output table_find(Output x, Output keys, Name name = {});

enum class Combiner { sum, mean, sqrtn };
struct EmbeddingLookupOptions {
  Combiner combiner = Combiner::mean;
  Output weights{};  // [m], of the table's dtype; default: ones
  Name name{};
};
// For each row the combined table rows of its ids: table [v,d], ids [m] with row_splits [n + 1] -> [n,d].
//   sum: sum w_i t_i; mean: that / sum w_i; sqrtn: that / sqrt(sum w_i^2). Rows without ids give zeros.
// The gathered rows are never stored. The table's gradient is sparse.
Output embedding_lookup_sparse(Output table, const Ragged& ids, EmbeddingLookupOptions options = {});

struct WordPieceOptions {
  std::int64_t length = 0;  // the most numbers of a text, with [CLS] and [SEP]; at least 2
  bool pad = true;          // to `length`; otherwise to the longest text of x
  Name name{};
};
struct PiecesOfWords {
  Output ids{};   // i64 [..., length]
  Output mask{};  // bool, likewise: whether a number is no padding
};
// The pieces of words of each string of x [...] as BERT's uncased models cut them (graph/word_piece.hpp), by their
// places in a vocabulary [v] that has [PAD], [UNK], [CLS] and [SEP]. A constant one becomes a table once.
PiecesOfWords word_piece(Output x, Output vocabulary, WordPieceOptions options);

// The normaliser and vectoriser of ONNX (operators StringNormalizer and TfIdfVectorizer).
struct StringNormalizerOptions {
  std::string change_case = "none";  // lower, upper
  bool is_case_sensitive = false;    // for stopwords
  std::vector<std::string> stopwords{};
  Name name{};
};
// x [c] or [1,c] without its stopwords; one empty string if nothing is left.
Output string_normalizer(Output x, StringNormalizerOptions options = {});
struct TfIdfOptions {
  std::string mode = "TF";  // IDF, TFIDF
  std::int64_t min_gram_length = 1, max_gram_length = 1, max_skip_count = 0;
  Integers ngram_counts{};   // where the n-grams of length 1, 2, ... begin in the pool
  Integers ngram_indexes{};  // the column of each n-gram
  Integers pool_integers{};  // the n-grams one after the other, of integers or strings
  std::vector<std::string> pool_strings{};
  std::vector<double> weights{};  // of the columns of n-grams; default: 1
  Name name{};
};
// x [c] or [n,c] of i32, i64 or string -> counts of the pool's n-grams [columns] or [n,columns], f32; n-grams may skip
// 0 to max_skip_count elements between any two.
Output tf_idf_vectorizer(Output x, TfIdfOptions options);

}  // namespace troupe
