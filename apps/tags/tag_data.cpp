#include "apps/tags/tag_data.hpp"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include <troupe/devices/storage/file_systems.hpp>
#include <troupe/devices/storage/remote/url.hpp>
#include <troupe/graph/layers/preprocessing.hpp>
#include <troupe/kernels/readers/line_stream.hpp>
#include <troupe/kernels/readers/record_formats.hpp>
#include <troupe/kernels/readers/text_table.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::size_t kColumns = 3;

using LabelNumbers = std::map<std::string, std::int64_t>;

std::string text_of(const TableRow& row) {
  std::string name = row[0];
  std::ranges::replace(name, '-', ' ');
  return name + " " + row[1];
}

Tensor texts_of(const std::vector<TableRow>& rows) {
  Tensor out(DType::string, Shape{static_cast<std::int64_t>(rows.size())});
  std::ranges::transform(rows, out.mutable_data<std::string>(), text_of);
  return out;
}

// Sets 1 for each tag of a row. Calls `unseen` for tags that are no labels.
template <class Unseen>
void set_tags(const TableRow& row, const LabelNumbers& labels, std::uint8_t* tags, const Unseen& unseen) {
  for (const std::string& label : split_spaces(row[2])) {
    const auto found = labels.find(label);
    if (found == labels.end())
      unseen(label);
    else
      tags[found->second] = 1;
  }
}

// u8 [rows, labels].
template <class Unseen>
Tensor tags_of(const std::vector<TableRow>& rows, const LabelNumbers& labels, const Unseen& unseen) {
  const auto columns = static_cast<std::int64_t>(labels.size());
  Tensor out = Tensor::zeros(DType::u8, Shape{static_cast<std::int64_t>(rows.size()), columns});
  std::uint8_t* row_tags = out.mutable_data<std::uint8_t>();
  for (const TableRow& row : rows) {
    set_tags(row, labels, row_tags, unseen);
    row_tags += columns;
  }
  return out;
}

// What one pass over the training file learns.
struct Learnt {
  LabelNumbers labels;
  VocabularyBuilder vocabulary;
  std::vector<TableRow> rows;  // if they are kept
  std::int64_t count = 0;
};

Learnt learn(const std::string& file, bool keep) {
  Learnt out;
  LineStream lines(file_system_of(file), file);
  for (std::string_view line; lines.next(line);) {
    TableRow row = table_row(line, kColumns, fmt::format("{}: line {}", shown_path(file), ++out.count));
    for (std::string& label : split_spaces(row[2])) out.labels.emplace(std::move(label), 0);
    out.vocabulary.update(split_words(Tensor::vector<std::string>({text_of(row)})));
    if (keep) out.rows.push_back(std::move(row));
  }
  if (out.count == 0) fail(Code::data_loss, "{}: the file has no lines", shown_path(file));
  std::int64_t next = 0;
  for (auto& [label, number] : out.labels) number = next++;
  return out;
}

// 0 if there is nothing to find and nothing found.
double f1_of(std::int64_t hits, std::int64_t found, std::int64_t wanted) {
  return found + wanted == 0 ? 0 : 2.0 * static_cast<double>(hits) / static_cast<double>(found + wanted);
}

}  // namespace

TagData load_tags(const std::string& train, const std::string& test, std::size_t words, bool keep) {
  TagData data{.train_file = table_path(train)};
  const Learnt learnt = learn(data.train_file, keep);
  const std::vector<TableRow> test_rows = read_table(test, kColumns);
  data.train_packages = learnt.count;
  for (const auto& [label, number] : learnt.labels) data.labels.push_back(label);
  if (keep) {
    data.train_text = texts_of(learnt.rows);
    data.train_tags = tags_of(learnt.rows, learnt.labels, [](const std::string&) {});
  }
  data.test_text = texts_of(test_rows);
  std::set<std::string> unseen;
  data.test_tags = tags_of(test_rows, learnt.labels, [&](const std::string& label) {
    unseen.insert(label);
    ++data.unseen_pairs;
  });
  data.unseen_labels = std::ssize(unseen);
  data.vocabulary = learnt.vocabulary.strings(words);
  return data;
}

data::Pipeline TagData::stream(std::uint64_t seed) const {
  LabelNumbers numbers;
  for (const std::string& label : labels) numbers.emplace(label, std::ssize(numbers));
  const Shape tags{std::ssize(labels)};
  return data::records(train_file, lines_format())
      .shuffle(seed)
      .map("package", {{"text", DType::string, Shape{}}, {"tags", DType::u8, tags}},
           [numbers = std::move(numbers), tags](const data::Element& line, const data::ElementContext&) {
             const TableRow row = table_row(line[0].item<std::string>(), kColumns, "a line");
             Tensor of_row = Tensor::zeros(DType::u8, tags);
             set_tags(row, numbers, of_row.mutable_data<std::uint8_t>(), [](const std::string&) {});
             return data::Element{Tensor::scalar(text_of(row)), std::move(of_row)};
           });
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
