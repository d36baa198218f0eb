// The command line of troupe-tags.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "apps/training_options.hpp"

namespace troupe {

enum class TagsModel : std::uint8_t { bag, transformer, encoder };
std::string_view name(TagsModel model);

struct TagsOptions : TrainingAppOptions {
  TagsOptions() {
    learning_rate = 0.01;
    training.epochs = 5;
    training.batch = 64;
  }

  std::string data;
  std::string test;     // a file; empty: test.tsv of the directory
  bool stream = false;  // reads the training file while training
  TagsModel model = TagsModel::bag;
  std::size_t vocabulary = 10000;  // words
  // Of the encoder:
  std::string weights;       // a folder; empty: it begins with random ones
  std::int64_t length = 48;  // tokens
  std::int64_t layers = 6, features = 384, heads = 12;
};

std::variant<TagsOptions, EarlyExit> parse_tags_options(const std::vector<std::string>& arguments, bool launched);

}  // namespace troupe
