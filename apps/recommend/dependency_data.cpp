#include "apps/recommend/dependency_data.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include <troupe/graph/layers/preprocessing.hpp>
#include <troupe/kernels/readers/text_table.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

// FNV-1a of the seed and the pair, mixed: the same on all machines.
bool is_held_out(const DependencyOptions& options, const std::string& package, const std::string& dependency) {
  std::uint64_t hash = 14695981039346656037U ^ options.seed;
  for (const char c : package + "\t" + dependency) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93U;
  hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93U;
  return static_cast<double>((hash ^ hash >> 32) >> 11) * 0x1p-53 < options.held_out;
}

// "libfoo-bar2.0-perl" -> "libfoo bar2 0 perl".
std::string words_of_name(const std::string& package) {
  std::string out = package;
  for (char& c : out)
    if (c == '-' || c == '.' || c == '+' || c == '_') c = ' ';
  return out;
}

Tensor strings_of(const std::vector<std::string>& all) {
  Tensor out(DType::string, Shape{std::ssize(all)});
  std::ranges::copy(all, out.mutable_data<std::string>());
  return out;
}

struct Package {
  std::string name{};
  std::vector<std::string> kept{}, held_out{};
};

std::vector<Package> split_packages(const std::string& file, const DependencyOptions& options) {
  std::vector<Package> out;
  for (const TableRow& row : read_table(file, 2)) {
    Package& package = out.emplace_back(Package{.name = row[0]});
    for (std::string& item : split_spaces(row[1])) {
      std::vector<std::string>& list = is_held_out(options, row[0], item) ? package.held_out : package.kept;
      if (std::ranges::find(list, item) == list.end()) list.push_back(std::move(item));
    }
  }
  return out;
}

// Writes 1 + items to a row of zeros, without one, up to its size; the rarest, which say most, first.
void write_known(const std::vector<std::int64_t>& items, std::int64_t without, std::span<std::int64_t> row,
                 const float* frequencies) {
  std::vector<std::int64_t> others;
  std::ranges::copy_if(items, std::back_inserter(others), [&](std::int64_t item) { return item != without; });
  std::ranges::stable_sort(others, {}, [&](std::int64_t item) { return frequencies[item]; });
  for (std::size_t i = 0; i < std::min(others.size(), row.size()); ++i) row[i] = others[i] + 1;
}

class Numbering {
 public:
  explicit Numbering(const std::vector<Package>& packages) {
    std::map<std::string, std::int64_t> counts;
    for (const Package& package : packages)
      for (const std::string& item : package.kept) ++counts[item];
    for (const auto& [item, count] : counts) {
      numbers_.emplace(item, std::ssize(names));
      names.push_back(item);
      pairs += count;
      this->counts.push_back(count);
    }
  }
  // -1: not an item.
  std::int64_t of(const std::string& item) const {
    const auto found = numbers_.find(item);
    return found == numbers_.end() ? -1 : found->second;
  }
  std::vector<std::int64_t> of(const std::vector<std::string>& items) const {
    std::vector<std::int64_t> out;
    for (const std::string& item : items) out.push_back(of(item));
    return out;
  }

  std::vector<std::string> names;
  std::vector<std::int64_t> counts;
  std::int64_t pairs = 0;

 private:
  std::map<std::string, std::int64_t> numbers_;
};

void add_training_pairs(DependencyData& data, const std::vector<Package>& packages, const Numbering& items,
                        const DependencyOptions& options) {
  std::vector<std::string> names;
  data.known = Tensor::zeros(DType::i64, Shape{items.pairs, options.known});
  data.item = Tensor(DType::i64, Shape{items.pairs});
  std::int64_t* known = data.known.mutable_data<std::int64_t>();
  std::int64_t* item_at = data.item.mutable_data<std::int64_t>();
  for (const Package& package : packages) {
    const std::vector<std::int64_t> all = items.of(package.kept);
    for (const std::int64_t item : all) {
      names.push_back(words_of_name(package.name));
      write_known(all, item, {known, static_cast<std::size_t>(options.known)}, data.frequencies.data<float>());
      known += options.known;
      *item_at++ = item;
    }
  }
  data.name = strings_of(names);
  data.negatives = Tensor(DType::i64, Shape{items.pairs, options.negatives});
  std::mt19937_64 random(options.seed);
  for (std::int64_t& negative : data.negatives.mutable_values<std::int64_t>())
    negative = static_cast<std::int64_t>(random() % items.names.size());
}

void add_queries(DependencyData& data, const std::vector<Package>& packages, const Numbering& items,
                 const DependencyOptions& options) {
  std::vector<std::string> names;
  for (const Package& package : packages) {
    if (package.held_out.empty()) continue;
    names.push_back(words_of_name(package.name));
    data.query_items.push_back(items.of(package.kept));
    data.query_held_out.push_back(items.of(package.held_out));
    data.held_out += std::ssize(package.held_out);
  }
  data.query_name = strings_of(names);
  data.query_known = Tensor::zeros(DType::i64, Shape{std::ssize(names), options.known});
  std::int64_t* row = data.query_known.mutable_data<std::int64_t>();
  for (const std::vector<std::int64_t>& known : data.query_items) {
    write_known(known, -1, {row, static_cast<std::size_t>(options.known)}, data.frequencies.data<float>());
    row += options.known;
  }
}

}  // namespace

DependencyData load_dependencies(const std::string& file, const DependencyOptions& options) {
  const std::vector<Package> packages = split_packages(file, options);
  const Numbering items(packages);
  if (items.pairs == 0) invalid_argument("{}: all pairs are held out: nothing is left to train with", file);
  DependencyData data{.packages = items.names};
  data.frequencies = Tensor(DType::f32, Shape{std::ssize(items.names)});
  std::ranges::transform(items.counts, data.frequencies.mutable_data<float>(), [&](std::int64_t count) {
    return static_cast<float>(static_cast<double>(count) / static_cast<double>(items.pairs));
  });
  add_training_pairs(data, packages, items, options);
  add_queries(data, packages, items, options);
  if (data.held_out == 0) invalid_argument("{}: no pairs are held out: nothing is left to test with", file);
  VocabularyBuilder words;
  words.update(split_words(data.name));
  data.vocabulary = words.strings(options.words);
  return data;
}

double recall_at(const DependencyData& data, const Tensor& ranked, std::int64_t k) {
  const bool alike = ranked.shape().rank() == 1;
  const std::int64_t length = ranked.shape()[alike ? 0 : 1];
  std::int64_t hits = 0;
  for (std::size_t query = 0; query < data.query_items.size(); ++query) {
    const std::int64_t* row = ranked.data<std::int64_t>() + (alike ? 0 : static_cast<std::int64_t>(query) * length);
    const std::vector<std::int64_t>&items = data.query_items[query], &held_out = data.query_held_out[query];
    std::int64_t named = 0;
    for (std::int64_t i = 0; i < length && named < k; ++i) {
      if (std::ranges::find(items, row[i]) != items.end()) continue;
      ++named;
      hits += std::ranges::count(held_out, row[i]);
    }
  }
  return static_cast<double>(hits) / static_cast<double>(data.held_out);
}

Tensor most_frequent(const DependencyData& data) {
  Tensor out(DType::i64, data.frequencies.shape());
  const std::span<std::int64_t> order = out.mutable_values<std::int64_t>();
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](std::int64_t item) { return data.frequencies.data<float>()[item]; });
  return out;
}

}  // namespace troupe
