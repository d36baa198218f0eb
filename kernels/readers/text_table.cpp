#include "troupe/kernels/readers/text_table.hpp"

#include <sstream>
#include <string_view>

#include <troupe/devices/storage/file_systems.hpp>
#include <troupe/devices/storage/remote/url.hpp>
#include <troupe/kernels/readers/line_stream.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

TableRow split(std::string_view line, char separator) {
  TableRow out;
  if (line.empty()) return out;
  for (std::size_t at = 0; at != line.npos;) {
    const std::size_t end = line.find(separator, at);
    out.emplace_back(line.substr(at, end - at));
    at = end == line.npos ? end : end + 1;
  }
  return out;
}

}  // namespace

std::string table_path(const std::string& path) {
  FileSystem& files = file_system_of(path);
  const std::string packed = with_suffix(path, ".gz");
  return !files.exists(path) && files.exists(packed) ? packed : path;
}

TableRow table_row(std::string_view line, std::size_t columns, const std::string& where) {
  TableRow row = split(line, '\t');
  if (row.size() != columns)
    fail(Code::data_loss, "{} has {} columns, but must have {}, separated by tabs", where, row.size(), columns);
  return row;
}

std::vector<TableRow> read_table(const std::string& path, std::size_t columns) {
  const std::string found = table_path(path), file = shown_path(found);
  LineStream lines(file_system_of(path), found);
  std::vector<TableRow> rows;
  for (std::string_view line; lines.next(line);)
    rows.push_back(table_row(line, columns, fmt::format("{}: line {}", file, rows.size() + 1)));
  if (rows.empty()) fail(Code::data_loss, "{}: the file has no lines", file);
  return rows;
}

std::vector<std::string> split_spaces(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(std::move(word));
  return out;
}

}  // namespace troupe
