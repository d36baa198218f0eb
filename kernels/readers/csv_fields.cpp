#include "troupe/kernels/readers/csv_fields.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>

#include <troupe/devices/storage/remote/url.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

// Of a row that tells names or dtypes: no program asks for another limit here, and files may be hostile.
constexpr std::uint64_t kMostInferredBytes = 64 << 20;

}  // namespace

void check_csv_format(const CsvFormat& format) {
  constexpr std::string_view kLineEnds("\n\r\0", 3);
  if (kLineEnds.find(format.separator) != kLineEnds.npos)
    invalid_argument("CSV: fields cannot be separated by a line end");
  if (format.quote == '\n' || format.quote == '\r' || format.quote == format.separator)
    invalid_argument("CSV: quotes must differ from separators and line ends");
}

LineOptions csv_lines(const CsvFormat& format, const RecordOptions& records) {
  check_csv_format(format);
  return {.records = records,
          .quoted = format.quote,
          .separator = format.separator,
          .skip_empty = true,
          .header_lines = format.header ? 1u : 0u};
}

void CsvFields::quoted(std::string_view& text) {
  copy_.clear();
  std::size_t from = 1;
  for (;;) {
    const std::size_t end = rest_.find(quote_, from);
    if (end == rest_.npos) {
      problem_ = "its quotes do not close";
      ended_ = true;
      return;
    }
    text = rest_.substr(from, end - from);
    const std::size_t behind = end + 1;
    if (behind < rest_.size() && rest_[behind] == quote_) {
      copy_.append(text) += quote_;
      from = behind + 1;
      continue;
    }
    if (!copy_.empty()) text = copy_.append(text);
    if (behind < rest_.size() && rest_[behind] != separator_) {
      problem_ = "text follows its quotes";
      ended_ = true;
      return;
    }
    pass(behind);
    return;
  }
}

std::string shown_text(std::string_view text) {
  constexpr std::size_t kShown = 40;
  std::size_t shown = std::min(text.size(), kShown);
  while (shown < text.size() && shown > 0 && (text[shown] & 0xc0) == 0x80) --shown;  // no half characters of UTF-8
  std::string out = "'";
  out += text.substr(0, shown);
  for (char& c : out)
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  return out + (shown < text.size() ? "...'" : "'");
}

std::size_t CsvHeader::index(std::string_view name) const {
  const auto found = std::ranges::find(names, name);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  std::string all;
  for (const std::string& other : names)
    if (all.size() < 400) all += (all.empty() ? "" : ", ") + other;
  fail(Code::not_found, "there is no column '{}'; the file has {}: {}", name, names.size(), all);
}

CsvHeader read_csv_header(FileSystem& files, const std::string& path, const CsvFormat& format) {
  LineOptions options = csv_lines(format, {.most_bytes = kMostInferredBytes});
  options.header_lines = 0;
  LineStream lines(files, path, options);
  std::string_view row, name;
  if (!lines.next(row)) fail(Code::data_loss, "{}: the file has no rows", shown_path(path));
  CsvHeader out;
  CsvFields fields(row, format);
  while (fields.next(name)) {
    if (fields.problem() != nullptr)
      fail(Code::data_loss, "{}: column {} of the first row: {}", shown_path(path), out.names.size() + 1,
           fields.problem());
    out.names.push_back(name.empty() ? fmt::format("c{}", out.names.size()) : std::string(name));
  }
  return out;
}

namespace {

// What is wrong with a row; "": nothing.
std::string problem_of(std::string_view row, const CsvFormat& format, std::size_t columns) {
  CsvFields fields(row, format);
  std::string_view text;
  std::size_t count = 0;
  for (; fields.next(text); ++count)
    if (fields.problem() != nullptr) return fmt::format("column {}: {}", count + 1, fields.problem());
  return count == columns ? "" : fmt::format("the row has {} columns, but must have {}", count, columns);
}

void check_names(const std::vector<std::string>& names, const std::string& path) {
  std::unordered_map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (const auto [other, is_new] = places.try_emplace(names[i], i); !is_new)
      fail(Code::data_loss, "{}: columns {} and {} of the first row are both {}: give them different names",
           shown_path(path), other->second + 1, i + 1, shown_text(names[i]));
}

}  // namespace

std::vector<CsvColumn> infer_csv(FileSystem& files, const std::string& path, const CsvFormat& format, std::size_t rows,
                                 bool skip_damaged) {
  std::vector<CsvColumn> out;
  const std::vector<std::string> names = read_csv_header(files, path, format).names;
  if (format.header) check_names(names, path);
  for (std::size_t i = 0; i < names.size(); ++i)
    out.push_back({.name = format.header ? names[i] : fmt::format("c{}", i), .dtype = DType::invalid});
  std::vector<bool> empty(out.size());
  LineStream lines(files, path, csv_lines(format, {.skip_damaged = skip_damaged, .most_bytes = kMostInferredBytes}));
  std::string_view row, text;
  for (std::uint64_t at = lines.position(); rows > 0 && lines.next(row); --rows, at = lines.position()) {
    if (const std::string problem = problem_of(row, format, out.size()); !problem.empty()) {
      if (skip_damaged) continue;
      fail(Code::data_loss, "{}: byte {}: {}", shown_path(path), at, problem);
    }
    CsvFields fields(row, format);
    for (std::size_t i = 0; fields.next(text); ++i) {
      DType& dtype = out[i].dtype;
      if (text.empty())
        empty[i] = true;
      else if ((dtype == DType::invalid || dtype == DType::i64) && is_csv_number(text, DType::i64))
        dtype = DType::i64;
      else if (dtype != DType::string)
        dtype = is_csv_number(text, DType::f32) ? DType::f32 : DType::string;
    }
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i].dtype == DType::invalid) out[i].dtype = DType::string;
    if (!empty[i] || out[i].dtype == DType::string) continue;
    out[i].dtype = DType::f32;
    out[i].fallback = "nan";
  }
  return out;
}

}  // namespace troupe
