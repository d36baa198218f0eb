// The command line of troupe-language.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "apps/training_options.hpp"
#include <troupe/actors/model/generate.hpp>

namespace troupe {

struct LanguageOptions : TrainingAppOptions {
  LanguageOptions() {
    learning_rate = 0.003;
    training.epochs = 3;
    generate.tokens = 200;
    generate.sampling.temperature = 0.8;
  }

  std::string data;
  std::string test;  // a file; empty: test.tsv of the directory
  std::int64_t layers = 2, width = 64, window = 64;
  std::string prompt = "a ";
  GenerateOptions generate;
};

std::variant<LanguageOptions, EarlyExit> parse_language_options(const std::vector<std::string>& arguments,
                                                                bool launched);

}  // namespace troupe
