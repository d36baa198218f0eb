#include "apps/tags/tag_data.hpp"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include <troupe/graph/layers/preprocessing.hpp>
#include <troupe/kernels/readers/text_table.hpp>

namespace troupe {
namespace {

constexpr std::size_t kColumns = 3;

using LabelNumbers = std::map<std::string, std::int64_t>;

Tensor texts_of(const std::vector<TableRow>& rows) {
  Tensor out(DType::string, Shape{static_cast<std::int64_t>(rows.size())});
  std::ranges::transform(rows, out.mutable_data<std::string>(), [](const TableRow& row) {
    std::string name = row[0];
    std::ranges::replace(name, '-', ' ');
    return name + " " + row[1];
  });
  return out;
}

LabelNumbers number_labels(const std::vector<TableRow>& rows) {
  LabelNumbers out;
  for (const TableRow& row : rows)
    for (std::string& label : split_spaces(row[2])) out.emplace(std::move(label), 0);
  std::int64_t next = 0;
  for (auto& [label, number] : out) number = next++;
  return out;
}

// u8 [rows, labels]. Calls `unseen` for tags that are no labels.
template <class Unseen>
Tensor tags_of(const std::vector<TableRow>& rows, const LabelNumbers& labels, const Unseen& unseen) {
  const auto columns = static_cast<std::int64_t>(labels.size());
  Tensor out = Tensor::zeros(DType::u8, Shape{static_cast<std::int64_t>(rows.size()), columns});
  std::uint8_t* row_tags = out.mutable_data<std::uint8_t>();
  for (const TableRow& row : rows) {
    for (const std::string& label : split_spaces(row[2])) {
      const auto found = labels.find(label);
      if (found == labels.end())
        unseen(label);
      else
        row_tags[found->second] = 1;
    }
    row_tags += columns;
  }
  return out;
}

// 0 if there is nothing to find and nothing found.
double f1_of(std::int64_t hits, std::int64_t found, std::int64_t wanted) {
  return found + wanted == 0 ? 0 : 2.0 * static_cast<double>(hits) / static_cast<double>(found + wanted);
}

}  // namespace

TagData load_tags(const std::string& train, const std::string& test, std::size_t words) {
  const std::vector<TableRow> train_rows = read_table(train, kColumns);
  const std::vector<TableRow> test_rows = read_table(test, kColumns);
  const LabelNumbers numbers = number_labels(train_rows);
  TagData data{.train_text = texts_of(train_rows), .test_text = texts_of(test_rows)};
  for (const auto& [label, number] : numbers) data.labels.push_back(label);
  data.train_tags = tags_of(train_rows, numbers, [](const std::string&) {});
  std::set<std::string> unseen;
  data.test_tags = tags_of(test_rows, numbers, [&](const std::string& label) {
    unseen.insert(label);
    ++data.unseen_pairs;
  });
  data.unseen_labels = std::ssize(unseen);
  VocabularyBuilder vocabulary;
  vocabulary.update(split_words(data.train_text));
  data.vocabulary = vocabulary.strings(words);
  return data;
}

TagScores score_tags(const TagData& data, const Tensor& logits) {
  const std::int64_t packages = data.test_tags.shape().dim(0), labels = data.test_tags.shape().dim(1);
  std::vector<std::int64_t> hits(labels), found(labels), wanted(labels);
  const float* logit = logits.data<float>();
  const std::uint8_t* tag = data.test_tags.data<std::uint8_t>();
  for (std::int64_t i = 0; i < packages; ++i)
    for (std::int64_t label = 0; label < labels; ++label, ++logit, ++tag) {
      const bool is_found = *logit > 0;  // the sigmoid's 0.5
      found[label] += is_found ? 1 : 0;
      wanted[label] += *tag;
      hits[label] += is_found ? *tag : 0;
    }
  std::int64_t all_hits = 0, all_found = 0, all_wanted = data.unseen_pairs, occurring = data.unseen_labels;
  double sum = 0;
  for (std::int64_t label = 0; label < labels; ++label) {
    all_hits += hits[label];
    all_found += found[label];
    all_wanted += wanted[label];
    if (wanted[label] == 0) continue;
    sum += f1_of(hits[label], found[label], wanted[label]);
    ++occurring;
  }
  return {.micro_f1 = f1_of(all_hits, all_found, all_wanted),
          .macro_f1 = occurring == 0 ? 0 : sum / static_cast<double>(occurring)};
}

std::string describe_tags(const TagData& data, const Tensor& logits, std::int64_t package) {
  const std::int64_t labels = data.test_tags.shape().dim(1);
  const float* logit = logits.data<float>() + package * labels;
  const std::uint8_t* tag = data.test_tags.data<std::uint8_t>() + package * labels;
  std::string lists[3];
  for (std::int64_t label = 0; label < labels; ++label) {
    const bool found = logit[label] > 0, wanted = tag[label] != 0;
    if (found || wanted) lists[found && wanted ? 0 : wanted ? 1 : 2] += " " + data.labels[label];
  }
  std::string out = data.test_text.data<std::string>()[package];
  constexpr const char* kHeads[] = {"found: ", "missed:", "wrong: "};
  for (int i = 0; i < 3; ++i)
    if (!lists[i].empty()) out += fmt::format("\n  {}{}", kHeads[i], lists[i]);
  return out;
}

}  // namespace troupe
