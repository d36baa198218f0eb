#include "troupe/kernels/readers/csv_fields.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

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
  if (!lines.next(row)) fail(Code::data_loss, "{}: the file has no rows", path);
  CsvHeader out;
  CsvFields fields(row, format);
  while (fields.next(name)) {
    if (fields.problem() != nullptr)
      fail(Code::data_loss, "{}: column {} of the first row: {}", path, out.names.size() + 1, fields.problem());
    out.names.emplace_back(name);
  }
  return out;
}

std::vector<CsvColumn> infer_csv(FileSystem& files, const std::string& path, const CsvFormat& format,
                                 std::size_t rows) {
  std::vector<CsvColumn> out;
  const std::vector<std::string> names = read_csv_header(files, path, format).names;
  for (std::size_t i = 0; i < names.size(); ++i)
    out.push_back({.name = format.header ? names[i] : fmt::format("c{}", i), .dtype = DType::invalid});
  std::vector<bool> empty(out.size());
  LineStream lines(files, path, csv_lines(format, {.most_bytes = kMostInferredBytes}));
  std::string_view row, text;
  for (std::uint64_t at = lines.position(); rows > 0 && lines.next(row); --rows, at = lines.position()) {
    CsvFields fields(row, format);
    std::size_t i = 0;
    for (; fields.next(text); ++i) {
      if (fields.problem() != nullptr)
        fail(Code::data_loss, "{}: byte {}: column {}: {}", path, at, i + 1, fields.problem());
      if (i >= out.size()) continue;
      DType& dtype = out[i].dtype;
      if (text.empty())
        empty[i] = true;
      else if ((dtype == DType::invalid || dtype == DType::i64) && is_csv_number(text, DType::i64))
        dtype = DType::i64;
      else if (dtype != DType::string)
        dtype = is_csv_number(text, DType::f32) ? DType::f32 : DType::string;
    }
    if (i != out.size())
      fail(Code::data_loss, "{}: byte {}: the row has {} columns, but must have {}", path, at, i, out.size());
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
