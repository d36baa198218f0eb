// ONNX's ops on strings.
#include <troupe/graph/builder/text.hpp>
#include <troupe/graph/formats/onnx/onnx_node.hpp>

namespace troupe {
namespace {

void string_normalizer_node(OnnxNode& node) {
  const std::string change = node.string("case_change_action", "NONE");
  node.set(string_normalizer(node.in(0), {.change_case = change == "LOWER"   ? "lower"
                                                         : change == "UPPER" ? "upper"
                                                                             : "none",
                                          .is_case_sensitive = node.integer("is_case_sensitive", 0) != 0,
                                          .stopwords = node.strings("stopwords", std::vector<std::string>{})}));
}

void tf_idf_node(OnnxNode& node) {
  node.set(tf_idf_vectorizer(node.in(0), {.mode = node.string("mode"),
                                          .min_gram_length = node.integer("min_gram_length"),
                                          .max_gram_length = node.integer("max_gram_length"),
                                          .max_skip_count = node.integer("max_skip_count"),
                                          .ngram_counts = node.integers("ngram_counts"),
                                          .ngram_indexes = node.integers("ngram_indexes"),
                                          .pool_integers = node.integers("pool_int64s", Integers{}),
                                          .pool_strings = node.strings("pool_strings", std::vector<std::string>{}),
                                          .weights = node.reals("weights", std::vector<double>{})}));
}

constexpr OnnxOp kTextOps[] = {
    {"StringNormalizer", string_normalizer_node},
    {"TfIdfVectorizer", tf_idf_node},
};

}  // namespace

std::span<const OnnxOp> onnx_text_ops() { return kTextOps; }

}  // namespace troupe
