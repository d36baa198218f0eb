// Packages and their tags: examples of a classification with several labels.
#pragma once

#include <string>
#include <vector>

#include <troupe/graph/data/pipeline.hpp>
#include <troupe/messages/tensor.hpp>
#include <troupe/scheduler/data/tensor_dataset.hpp>

namespace troupe {

struct TagData {
  std::vector<std::string> labels{};      // of the training file, sorted
  std::vector<std::string> vocabulary{};  // of its texts, the most frequent words first
  // string [n]: the name, spaces for its hyphens, and the description; u8 [n, labels]: 1 where a package has the tag.
  // Those of the training file are empty if they are read while training.
  Tensor train_text{}, test_text{}, train_tags{}, test_tags{};
  std::string train_file{};
  std::int64_t train_packages = 0;
  // Of the test file, what no model of the training file can find: tags that this lacks, and packages that have them.
  std::int64_t unseen_labels = 0, unseen_pairs = 0;

  // The same examples as train(), in another order, read from the file.
  data::Pipeline stream(std::uint64_t seed) const;
  TensorDataset train() const { return TensorDataset({{"text", train_text}, {"tags", train_tags}}); }
  TensorDataset test() const { return TensorDataset({{"text", test_text}, {"tags", test_tags}}); }
};

// Files of lines `package <TAB> description <TAB> tags separated by spaces`, plain or .gz. `words`: the greatest size
// of the vocabulary. `keep`: the examples of the training file, in memory. Throws what read_table() throws.
TagData load_tags(const std::string& train, const std::string& test, std::size_t words, bool keep = true);

// F1 = 2 hits / (found + wanted), of all pairs of a package and a tag that are found, wanted and both.
struct TagScores {
  double micro_f1 = 0;  // of all pairs
  double macro_f1 = 0;  // the mean over the labels that occur in the test file
};
// Logits f32 [n, labels] of the test packages; a tag is found where the sigmoid exceeds 0.5.
TagScores score_tags(const TagData& data, const Tensor& logits);

// For people: a package of the test file, and its tags that were found, missed, and found in error.
std::string describe_tags(const TagData& data, const Tensor& logits, std::int64_t package);

}  // namespace troupe
