// Embeds sentences and compares them, with the weights of all-MiniLM-L6-v2 or another encoder of its kind: a folder
// with model.safetensors and vocab.txt as Hugging Face's Hub has them.
//   example_sentence_encoder --weights DIR [--heads N] [--length N] [--values FILE] [--save DIR] SENTENCE...
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include <troupe/troupe.hpp>

namespace {

using namespace troupe;

struct Options {
  std::map<std::string, std::string> given{
      {"--weights", ""}, {"--heads", "12"}, {"--length", "256"}, {"--values", ""}, {"--save", ""}};
  std::vector<std::string> sentences{};
};

// Prints the similarity of each two sentences. --values: writes the vectors, a .safetensors or .npz file. --save:
// writes the encoder as a model of tokens, which other programs can run that have no WordPiece.
void run(Options& options) {
  const std::string directory = options.given["--weights"];
  const PretrainedEncoder pretrained =
      read_pretrained_encoder(file_system_of(directory), directory, std::atoll(options.given["--heads"].c_str()));
  const std::int64_t length =
      std::min<std::int64_t>(std::atoll(options.given["--length"].c_str()), pretrained.options.positions);
  const Symbol text = input("text", Shape{}, DType::string);
  const Symbols tokens = layers::word_piece(pretrained.vocabulary, length, false).call({text});
  Model model(Network({text}, {{"embedding", sentence_encoder(tokens, pretrained.options)}}));
  model.load_values(pretrained.file, pretrained.values);
  const Tensor sentences = Tensor::of<std::string>(Shape{std::ssize(options.sentences)}, options.sentences);
  const Tensor embeddings = model.predict(sentences);

  const std::int64_t count = embeddings.shape().dim(0), features = embeddings.shape().dim(1);
  const float* vectors = embeddings.data<float>();
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t j = i + 1; j < count; ++j) {
      float similarity = 0;
      for (std::int64_t k = 0; k < features; ++k) similarity += vectors[i * features + k] * vectors[j * features + k];
      fmt::print("{:.4f}  {} | {}\n", similarity, options.sentences[i], options.sentences[j]);
    }
  if (const std::string& file = options.given["--values"]; !file.empty())
    save_values(file_system_of(file), file, {{"embeddings", embeddings}});
  if (const std::string& saved = options.given["--save"]; !saved.empty()) {
    const Symbols ids{input("input_ids", Shape{kUnknown}, DType::i64),
                      input("token_type_ids", Shape{kUnknown}, DType::i64),
                      input("attention_mask", Shape{kUnknown}, DType::boolean)};
    Model of_tokens(Network(ids, {{"embedding", sentence_encoder(ids, pretrained.options)}}));
    of_tokens.load_values(pretrained.file, pretrained.values);
    of_tokens.save(saved);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  int at = 1;
  for (; at + 1 < argc && options.given.contains(argv[at]); at += 2) options.given[argv[at]] = argv[at + 1];
  options.sentences.assign(argv + at, argv + argc);
  if (options.given["--weights"].empty() || options.sentences.empty() || options.sentences[0].starts_with("--")) {
    fmt::print(stderr, "Usage: {} --weights DIR [--heads N] [--length N] [--values FILE] [--save DIR] SENTENCE...\n",
               argv[0]);
    return 2;
  }
  try {
    run(options);
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.to_string());
    return 1;
  }
}
