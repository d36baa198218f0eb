#include "troupe/kernels/readers/text_table.hpp"

#include <zlib.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <sstream>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

// All of a file; zlib reads plain ones as they are.
std::string uncompressed(const std::string& path) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) fail(Code::not_found, "{}: cannot open the file: {}", path, std::strerror(errno));
  std::string text;
  std::array<char, 1 << 16> chunk{};
  int read = 0;
  while ((read = gzread(file.get(), chunk.data(), chunk.size())) > 0) text.append(chunk.data(), read);
  int error = Z_OK;
  const char* reason = gzerror(file.get(), &error);
  if (error == Z_ERRNO) reason = std::strerror(errno);
  // Z_BUF_ERROR: the file ends inside of compressed data.
  if (read < 0 || error != Z_OK) fail(Code::data_loss, "{}: after {} bytes of text: {}", path, text.size(), reason);
  return text;
}

TableRow split(const std::string& line, char separator) {
  TableRow out;
  std::istringstream in(line);
  for (std::string value; std::getline(in, value, separator);) out.push_back(std::move(value));
  if (line.ends_with(separator)) out.emplace_back();
  return out;
}

}  // namespace

std::vector<TableRow> read_table(const std::string& path, std::size_t columns) {
  std::error_code ignored;
  const bool exists = std::filesystem::exists(path, ignored);
  const std::string file = !exists && std::filesystem::exists(path + ".gz", ignored) ? path + ".gz" : path;
  std::istringstream lines(uncompressed(file));
  std::vector<TableRow> rows;
  for (std::string line; std::getline(lines, line);) {
    rows.push_back(split(line, '\t'));
    if (rows.back().size() != columns)
      fail(Code::data_loss, "{}: line {} has {} columns, but must have {}, separated by tabs", file, rows.size(),
           rows.back().size(), columns);
  }
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
