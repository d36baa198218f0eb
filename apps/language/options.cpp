#include "apps/language/options.hpp"

namespace troupe {
namespace {

constexpr const char* kLanguagePurpose =
    R"(Learns to write descriptions of packages character by character, alone or as one task of a cluster, with a small
transformer; then writes some. The result is the bits per character of descriptions that were not trained on, beside
those of the best model that sees one character only.)";
constexpr const char* kLanguageExamples =
    R"(In this process, on DIR/train.tsv and DIR/test.tsv, plain or .gz, with lines of package, description and tags:
  troupe-language --data DIR
  troupe-language --data DIR --layers 4 --width 128 --prompt "library for "

A text goes on from --prompt: with the most probable characters (--temperature 0), drawn from all of them, from the most
probable ones (--top-k, --top-p), or as the most probable text (--beams).)";

std::vector<CommandOption> language_options(LanguageOptions& o) {
  constexpr std::int64_t kMost = 1'000'000;
  GenerateOptions& g = o.generate;
  return {text_option("--data", "DIR", o.data, "Directory of train.tsv and test.tsv, plain or .gz"),
          text_option("--test", "FILE", o.test, "Test with the descriptions of FILE (default: DIR/test.tsv)"),
          whole_option("--layers", "N", o.layers, 1, 1000, "Blocks of the transformer"),
          whole_option("--width", "N", o.width, 8, 65536, "Features of a character, a multiple of 8"),
          whole_option("--window", "N", o.window, 2, kMost, "Characters that an example of training has"),
          text_option("--prompt", "TEXT", o.prompt, "Write a text that begins like this"),
          whole_option("--generate", "N", g.tokens, 0, kMost, "Characters to write; 0: none"),
          number_option("--temperature", "T", g.sampling.temperature, 0, 100,
                        "Below 1, probable characters become more probable; 0: always the most probable"),
          whole_option("--top-k", "K", g.sampling.top_k, 0, kMost, "Draw from the K most probable; 0: from all"),
          number_option("--top-p", "P", g.sampling.top_p, 1e-6, 1,
                        "Draw from the most probable ones that together have this probability"),
          whole_option("--beams", "N", g.beams, 1, 1024, "Search for the most probable text with N beams")};
}

}  // namespace

std::variant<LanguageOptions, EarlyExit> parse_language_options(const std::vector<std::string>& arguments,
                                                                bool launched) {
  LanguageOptions options;
  const TrainingCommand command{.program = "troupe-language",
                                .purpose = kLanguagePurpose,
                                .examples = kLanguageExamples,
                                .own = language_options(options),
                                .problem = [&](const CommandLine&) -> std::optional<std::string> {
                                  if (options.data.empty())
                                    return "--data is missing: pass the directory with train.tsv and test.tsv";
                                  if (options.width % 8 != 0)
                                    return "--width: expected a multiple of 8: heads of an even number of features";
                                  if (options.prompt.empty()) return "--prompt: expected at least one character";
                                  return std::nullopt;
                                }};
  if (auto exit = parse_training_options(command, options, arguments, launched)) return *exit;
  options.generate.seed = options.training.seed;
  return options;
}

}  // namespace troupe
