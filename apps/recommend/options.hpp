// The command line of troupe-recommend.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "apps/recommend/dependency_data.hpp"
#include "apps/training_options.hpp"

namespace troupe {

struct RecommendOptions : TrainingAppOptions {
  RecommendOptions() {
    learning_rate = 0.005;
    training.epochs = 3;
    training.batch = 256;
  }

  std::string data;  // a directory
  DependencyOptions pairs;
  std::int64_t width = 32;
};

std::variant<RecommendOptions, EarlyExit> parse_recommend_options(const std::vector<std::string>& arguments,
                                                                  bool launched);

}  // namespace troupe
