// Packages and those that they depend on: pairs to recommend from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <troupe/messages/tensor.hpp>
#include <troupe/scheduler/data/tensor_dataset.hpp>

namespace troupe {

struct DependencyOptions {
  std::uint64_t seed = 0;      // of the split and the negatives
  double held_out = 0.1;       // the part of the pairs that is tested with
  std::int64_t known = 12;     // dependencies that a query tells of
  std::int64_t negatives = 8;  // wrong answers that come with each example
  std::size_t words = 8000;    // of the vocabulary of names
};

struct DependencyData {
  std::vector<std::string> packages{};    // that are depended on in a pair of the training: item i is packages[i]
  std::vector<std::string> vocabulary{};  // of the words of names, the most frequent first
  Tensor frequencies{};                   // f32 [items]: the part of the training pairs that an item has
  // Of each training pair (a package, an item): the words of the package's name, string [n]; up to `known` other items
  // of the package, i64 [n, known], 1 + item, 0 behind them; the item, i64 [n]; and items drawn evenly, i64 [n,
  // negatives].
  Tensor name{}, known{}, item{}, negatives{};
  // Of each package with pairs that are held out: its name, items of the training, and those two lists in full.
  Tensor query_name{}, query_known{};
  std::vector<std::vector<std::int64_t>> query_items{}, query_held_out{};
  std::int64_t held_out = 0;  // pairs

  TensorDataset train() const {
    return TensorDataset({{"name", name}, {"known", known}, {"item", item}, {"negatives", negatives}});
  }
  TensorDataset queries() const { return TensorDataset({{"name", query_name}, {"known", query_known}}); }
};

// A file of lines `package <TAB> dependencies separated by spaces`, plain or .gz. Each pair is held out or not by a
// hash of the seed and both names. Held-out pairs with an item that no training pair has are part of the test: nothing
// finds them. Throws what read_table() throws, and invalid_argument if no pairs remain to train or to test with.
DependencyData load_dependencies(const std::string& file, const DependencyOptions& options);

// The part of the held-out pairs whose item is among the first `k` recommendations of its package that are no items of
// its training. `ranked`: i64 [queries, m] or, alike for all, [m]; the best first.
double recall_at(const DependencyData& data, const Tensor& ranked, std::int64_t k);

// The items by frequency, the greatest first: i64 [items].
Tensor most_frequent(const DependencyData& data);

}  // namespace troupe
