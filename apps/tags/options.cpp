#include "apps/tags/options.hpp"

#include <fmt/core.h>

namespace troupe {
namespace {

constexpr const char* kTagsPurpose =
    R"(Learns to tag packages of Debian by name and description, alone or as one task of a cluster. A package has
several tags: each is a yes-or-no decision of its own, and the result is the F1 score of these decisions on packages
that were not trained on: micro-F1 over all of them, macro-F1 as the mean over the tags that occur.)";
constexpr const char* kTagsExamples =
    R"(In this process, on DIR/train.tsv and DIR/test.tsv, plain or .gz, with lines of package, description and tags:
  troupe-tags --data DIR
  troupe-tags --data DIR --model transformer --epochs 5 --save tagger

With the weights of an encoder of sentences, like all-MiniLM-L6-v2 of Hugging Face's Hub:
  troupe-tags --data DIR --model encoder --weights all-MiniLM-L6-v2 --epochs 1

Models: bag adds up the vectors of the words, transformer also looks at their order and company, with --lr 0.002
unless you pass another. encoder is BERT's, on pieces of words; its rate is 0.0001 with --weights, else 0.0005.)";
constexpr double kTransformerRate = 0.002, kEncoderRate = 0.0005, kFineTuningRate = 0.0001;

double rate_of(const TagsOptions& options) {
  if (options.model == TagsModel::bag) return options.learning_rate.rate(0);
  if (options.model == TagsModel::transformer) return kTransformerRate;
  return options.weights.empty() ? kEncoderRate : kFineTuningRate;
}

std::optional<std::string> problem_of(const TagsOptions& options, const CommandLine& line) {
  if (options.data.empty()) return "--data is missing: pass the directory with train.tsv and test.tsv";
  for (const char* of_encoder : {"--weights", "--length", "--layers", "--features", "--heads"})
    if (options.model != TagsModel::encoder && line.given(of_encoder))
      return fmt::format("{} needs --model encoder", of_encoder);
  for (const char* of_shape : {"--layers", "--features"})
    if (!options.weights.empty() && line.given(of_shape))
      return fmt::format("{} is that of the weights: leave it out", of_shape);
  if (options.weights.empty() && options.features % options.heads != 0)
    return fmt::format("{} features cannot be cut into {} heads", options.features, options.heads);
  return std::nullopt;
}

}  // namespace

std::string_view name(TagsModel model) {
  return model == TagsModel::bag ? "bag" : model == TagsModel::transformer ? "transformer" : "encoder";
}

std::variant<TagsOptions, EarlyExit> parse_tags_options(const std::vector<std::string>& arguments, bool launched) {
  TagsOptions options;
  const TrainingCommand command{
      .program = "troupe-tags",
      .purpose = kTagsPurpose,
      .examples = kTagsExamples,
      .own = {text_option("--data", "DIR", options.data, "Directory of train.tsv and test.tsv, plain or .gz"),
              text_option("--test", "FILE", options.test, "Test with the packages of FILE (default: DIR/test.tsv)"),
              flag("--stream", options.stream,
                   "Read the packages of train.tsv while training, through input tasks if there are any, instead of "
                   "keeping them in memory; their order is another"),
              choice_option(
                  "--model", options.model, by_name({TagsModel::bag, TagsModel::transformer, TagsModel::encoder}),
                  "Model: the mean of the words' vectors, a block of a transformer, or an encoder of sentences"),
              whole_option("--vocabulary", "N", options.vocabulary, 1, 1'000'000,
                           "Most frequent words to know; all others are one word"),
              text_option("--weights", "DIR", options.weights,
                          "Encoder: begin with the weights of DIR/model.safetensors and the vocabulary of "
                          "DIR/vocab.txt, which also say its shape"),
              whole_option("--length", "N", options.length, 2, 512, "Encoder: most tokens of a text"),
              whole_option("--layers", "N", options.layers, 1, 1000, "Encoder: its layers"),
              whole_option("--features", "N", options.features, 1, 1 << 16, "Encoder: numbers of a token's vector"),
              whole_option("--heads", "N", options.heads, 1, 1 << 16, "Encoder: heads of its attention")},
      .rate = [&] { return rate_of(options); },
      .problem = [&](const CommandLine& line) { return problem_of(options, line); }};
  if (auto exit = parse_training_options(command, options, arguments, launched)) return *exit;
  return options;
}

}  // namespace troupe
