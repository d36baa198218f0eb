#include "apps/tags/options.hpp"

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

Models: bag adds up the vectors of the words, transformer also looks at their order and company, with --lr 0.002
unless you pass another.)";
constexpr double kTransformerRate = 0.002;

}  // namespace

std::string_view name(TagsModel model) { return model == TagsModel::bag ? "bag" : "transformer"; }

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
              choice_option("--model", options.model, by_name({TagsModel::bag, TagsModel::transformer}),
                            "Model: the mean of the words' vectors, or a block of a transformer"),
              whole_option("--vocabulary", "N", options.vocabulary, 1, 1'000'000,
                           "Most frequent words to know; all others are one word")},
      .rate =
          [&] { return options.model == TagsModel::transformer ? kTransformerRate : options.learning_rate.rate(0); },
      .problem = [&](const CommandLine&) -> std::optional<std::string> {
        if (!options.data.empty()) return std::nullopt;
        return "--data is missing: pass the directory with train.tsv and test.tsv";
      }};
  if (auto exit = parse_training_options(command, options, arguments, launched)) return *exit;
  return options;
}

}  // namespace troupe
