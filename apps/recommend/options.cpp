#include "apps/recommend/options.hpp"

namespace troupe {
namespace {

constexpr const char* kRecommendPurpose =
    R"(Learns which packages a package depends on, alone or as one task of a cluster, and recommends others. A tenth of
the pairs is held out; the result is the part of them that is found among the first 20 recommendations, beside that of
always recommending the most frequent packages.)";
constexpr const char* kRecommendExamples =
    R"(In this process, on DIR/depends.tsv, plain or .gz, with lines of a package and those that it depends on:
  troupe-recommend --data DIR
  troupe-recommend --data DIR --width 64 --epochs 5

One tower makes a vector of a package's name and of its other dependencies, another has a vector of each package. Pairs
that are held out and wrong answers follow from --seed.)";

}  // namespace

std::variant<RecommendOptions, EarlyExit> parse_recommend_options(const std::vector<std::string>& arguments,
                                                                  bool launched) {
  RecommendOptions options;
  const TrainingCommand command{
      .program = "troupe-recommend",
      .purpose = kRecommendPurpose,
      .examples = kRecommendExamples,
      .own = {text_option("--data", "DIR", options.data, "Directory of depends.tsv, plain or .gz"),
              whole_option("--width", "N", options.width, 1, 65536, "Numbers of a vector"),
              whole_option("--negatives", "N", options.pairs.negatives, 1, 1024,
                           "Wrong answers drawn for each example, which all examples of a batch share")},
      .problem = [&](const CommandLine&) -> std::optional<std::string> {
        if (!options.data.empty()) return std::nullopt;
        return "--data is missing: pass the directory with depends.tsv";
      }};
  if (auto exit = parse_training_options(command, options, arguments, launched)) return *exit;
  options.pairs.seed = options.training.seed;
  return options;
}

}  // namespace troupe
