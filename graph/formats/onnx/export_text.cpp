// Signal processing and text, as ONNX's.
#include <algorithm>

#include <troupe/graph/formats/onnx/onnx_export.hpp>

namespace troupe {
namespace {

// ---- signals

void write_dft(OnnxExportNode& node) {
  const Attributes& a = node.attributes();
  const auto length = node.known(1);
  const bool whole = length && length->item<std::int64_t>() < 0;
  OnnxNames inputs{node.in(0)};
  if (!whole) inputs.push_back(node.in(1));
  node.set(
      node.add("DFT", std::move(inputs),
               {{"axis", a.integer("axis")}, {"inverse", a.boolean("inverse")}, {"onesided", a.boolean("onesided")}}));
}

// Frames [m,length] of positions: frame i begins at i step.
void write_frame(OnnxExportNode& node) {
  const OnnxName length = node.in(1), step = node.in(2), zero = node.integer(0), one = node.integer(1);
  const OnnxName positions = node.add("Gather", {node.add("Shape", {node.in(0)}), one});
  const OnnxName last = node.add("Div", {node.add("Sub", {positions, length}), step});
  const OnnxName frames = node.add("Range", {zero, node.add("Add", {last, one}), one});
  const OnnxName begins = node.add("Unsqueeze", {node.add("Mul", {frames, step}), node.integers({1})});
  const OnnxName at = node.add("Add", {begins, node.add("Range", {zero, length, one})});
  node.set(node.add("Gather", {node.in(0), at}, {{"axis", std::int64_t{1}}}));
}

void write_mel(OnnxExportNode& node) { node.set(node.add("MelWeightMatrix", node.all_inputs())); }

// ---- text

void write_string_normalizer(OnnxExportNode& node) {
  const Attributes& a = node.attributes();
  const std::string& change = a.string("change_case");
  Attributes written{{"case_change_action", std::string(change == "lower"   ? "LOWER"
                                                        : change == "upper" ? "UPPER"
                                                                            : "NONE")},
                     {"is_case_sensitive", a.boolean("is_case_sensitive")}};
  if (const auto& words = a.get<std::vector<std::string>>("stopwords"); !words.empty()) written.set("stopwords", words);
  node.set(node.add("StringNormalizer", {node.in(0)}, written));
}

void write_tf_idf(OnnxExportNode& node) {
  const Attributes& a = node.attributes();
  Attributes written;
  for (const char* same :
       {"mode", "min_gram_length", "max_gram_length", "max_skip_count", "ngram_counts", "ngram_indexes"})
    written.set(same, a.all().at(same));
  if (!a.integers("pool_integers").empty()) written.set("pool_int64s", a.integers("pool_integers"));
  if (const auto& pool = a.get<std::vector<std::string>>("pool_strings"); !pool.empty())
    written.set("pool_strings", pool);
  if (const auto& weights = a.get<std::vector<double>>("weights"); !weights.empty()) written.set("weights", weights);
  node.set(node.add("TfIdfVectorizer", {node.in(0)}, written));
}

constexpr OnnxExportOp kTextWriters[] = {
    {"DFT", write_dft},
    {"Frame", write_frame},
    {"MelWeightMatrix", write_mel},
    {"StringNormalizer", write_string_normalizer},
    {"TfIdfVectorizer", write_tf_idf},
};

}  // namespace

std::span<const OnnxExportOp> onnx_text_writers() { return kTextWriters; }

}  // namespace troupe
