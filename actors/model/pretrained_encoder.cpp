#include "troupe/actors/model/pretrained_encoder.hpp"

#include <algorithm>
#include <charconv>

#include <troupe/devices/storage/remote/url.hpp>
#include <troupe/graph/word_piece.hpp>
#include <troupe/kernels/readers/safetensors.hpp>

namespace troupe {
namespace {

constexpr std::uint64_t kMaxVocabularyBytes = std::uint64_t{1} << 26;
constexpr std::int64_t kMaxLayers = 1000;
constexpr std::string_view kLayers = "encoder.layer.";

// A layer's dense parts: Hugging Face's name, ours with what is between it and "kernel" or "bias", and the shape.
enum class Size { features, hidden };
struct DensePart {
  const char* from;
  const char* to;
  Size in, out;
};
constexpr DensePart kDenseParts[] = {
    {"attention.self.query", "attention/query_", Size::features, Size::features},
    {"attention.self.key", "attention/key_", Size::features, Size::features},
    {"attention.self.value", "attention/value_", Size::features, Size::features},
    {"attention.output.dense", "attention/output_", Size::features, Size::features},
    {"intermediate.dense", "feed_forward_in/", Size::features, Size::hidden},
    {"output.dense", "feed_forward_out/", Size::hidden, Size::features},
};
constexpr const char* kNorms[][2] = {{"attention.output.LayerNorm", "attention_norm"},
                                     {"output.LayerNorm", "feed_forward_norm"}};

// The header of a file of weights, and the choice of its values that grows with each weight.
class EncoderWeights {
 public:
  EncoderWeights(const std::vector<TensorInfo>& infos, std::string file) : infos_(infos), file_(std::move(file)) {}

  // A matrix whose numbers of rows and columns count.
  Shape matrix(const std::string& name) const {
    const Shape& shape = find(name).shape;
    if (shape.rank() != 2 || shape.dim(0) < 1 || shape.dim(1) < 1)
      invalid_argument("'{}': '{}' is {}, but must be a matrix", file_, name, shape.to_string());
    return shape;
  }
  // One more than the greatest number of a layer.
  std::int64_t layers() const {
    std::int64_t count = 0;
    for (const TensorInfo& info : infos_) {
      if (!info.name.starts_with(kLayers)) continue;
      const std::string_view number = std::string_view(info.name).substr(kLayers.size());
      std::int64_t layer = -1;
      std::from_chars(number.data(), number.data() + number.size(), layer);
      if (layer < 0 || layer >= kMaxLayers)
        invalid_argument("'{}': '{}' is of no layer from 0 to {}", file_, info.name, kMaxLayers - 1);
      count = std::max(count, layer + 1);
    }
    if (count == 0) fail(Code::not_found, "'{}' has no weight '{}0...': it is no BertModel's", file_, kLayers);
    return count;
  }

  void take(const std::string& from, const std::string& to, const Shape& expected, bool transposed = false) {
    const TensorInfo& info = find(from);
    if (info.shape != expected || info.dtype != DType::f32)
      invalid_argument("'{}': '{}' is {}{}, but f32{} is expected", file_, from, info.stored_type,
                       info.shape.to_string(), expected.to_string());
    choice_.only.push_back(from);
    choice_.prefixes.emplace_back(from, to);
    if (transposed) choice_.transposed.push_back(from);
  }
  void take_norm(const std::string& from, const std::string& to, std::int64_t features) {
    take(from + ".weight", to + "/scale", Shape{features});
    take(from + ".bias", to + "/offset", Shape{features});
  }
  void take_layer(std::int64_t layer, const SentenceEncoderOptions& o) {
    const std::string from = fmt::format("{}{}.", kLayers, layer), to = fmt::format("layer{}/", layer);
    const auto size = [&](Size which) { return which == Size::features ? o.features : o.hidden; };
    for (const DensePart& part : kDenseParts) {
      take(from + part.from + ".weight", to + part.to + "kernel", Shape{size(part.out), size(part.in)}, true);
      take(from + part.from + ".bias", to + part.to + "bias", Shape{size(part.out)});
    }
    for (const auto& [norm, ours] : kNorms) take_norm(from + norm, to + ours, o.features);
  }
  ValueChoice choice() && { return std::move(choice_); }

 private:
  const TensorInfo& find(const std::string& name) const {
    const auto found = std::ranges::find(infos_, name, &TensorInfo::name);
    if (found == infos_.end())
      fail(Code::not_found, "'{}' has no weight '{}', which an encoder of sentences needs", file_, name);
    return *found;
  }

  const std::vector<TensorInfo>& infos_;
  std::string file_;
  ValueChoice choice_;
};

}  // namespace

PretrainedEncoder read_pretrained_encoder(FileSystem& files, const std::string& directory, std::int64_t heads) {
  PretrainedEncoder out{.file = join_path(directory, "model.safetensors")};
  const std::string vocabulary = join_path(directory, "vocab.txt");
  out.vocabulary = texts::vocabulary_of(read_file(files, vocabulary, kMaxVocabularyBytes));
  const SafetensorsFile file(files, out.file);
  EncoderWeights weights(file.tensors(), shown_path(out.file));

  const std::string words = "embeddings.word_embeddings.weight", positions = "embeddings.position_embeddings.weight",
                    types = "embeddings.token_type_embeddings.weight";
  SentenceEncoderOptions& o = out.options;
  o.vocabulary = weights.matrix(words).dim(0);
  o.features = weights.matrix(words).dim(1);
  o.positions = weights.matrix(positions).dim(0);
  o.types = weights.matrix(types).dim(0);
  o.layers = weights.layers();
  o.heads = heads;
  o.hidden = weights.matrix(fmt::format("{}0.intermediate.dense.weight", kLayers)).dim(0);
  if (o.vocabulary != std::ssize(out.vocabulary))
    invalid_argument("'{}' has {} pieces, but '{}' of '{}' has {} rows", shown_path(vocabulary), out.vocabulary.size(),
                     words, shown_path(out.file), o.vocabulary);
  if (heads < 1 || o.features % heads != 0)
    invalid_argument("'{}' has {} features, which cannot be cut into {} heads", shown_path(out.file), o.features,
                     heads);

  weights.take(words, "words/table", Shape{o.vocabulary, o.features});
  weights.take(positions, "positions/table", Shape{o.positions, o.features});
  weights.take(types, "types/table", Shape{o.types, o.features});
  weights.take_norm("embeddings.LayerNorm", "embeddings_norm", o.features);
  for (std::int64_t layer = 0; layer < o.layers; ++layer) weights.take_layer(layer, o);
  out.values = std::move(weights).choice();
  return out;
}

}  // namespace troupe
