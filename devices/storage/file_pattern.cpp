#include "troupe/devices/storage/file_pattern.hpp"

#include <algorithm>

#include <troupe/devices/storage/remote/url.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

bool has_wildcard(std::string_view text) { return text.find_first_of("*?") != std::string_view::npos; }

// Adds the paths below `directory` ("": none given) that match the rest of a pattern.
void add_matching(FileSystem& files, const std::string& directory, std::string_view pattern,
                  std::vector<std::string>& out) {
  const std::size_t slash = pattern.find('/');
  const std::string_view part = pattern.substr(0, slash);
  const bool last = slash == std::string_view::npos;
  const std::string_view rest = last ? std::string_view() : pattern.substr(slash + 1);
  if (part.empty() && !last) return add_matching(files, directory, rest, out);  // "a//b"
  if (!has_wildcard(part)) {
    const std::string path = directory.empty() ? std::string(part) : join_path(directory, part);
    if (!last)
      add_matching(files, path, rest, out);
    else if (files.exists(path))
      out.push_back(path);
    return;
  }
  const std::string listed = directory.empty() ? "." : directory;
  if (!files.exists(listed)) return;
  for (const DirectoryEntry& entry : files.list(listed)) {
    if (entry.is_directory == last || !matches_pattern(entry.name, part)) continue;
    const std::string path = directory.empty() ? entry.name : join_path(directory, entry.name);
    if (last)
      out.push_back(path);
    else
      add_matching(files, path, rest, out);
  }
}

}  // namespace

// Goes back to the last '*' only: linear in each piece between two of them.
bool matches_pattern(std::string_view name, std::string_view pattern) {
  std::size_t n = 0, p = 0, star = std::string_view::npos, after = 0;
  while (n < name.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || (pattern[p] == name[n] && pattern[p] != '*'))) {
      ++n;
      ++p;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      after = n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++after;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::vector<std::string> files_matching(FileSystem& files, const std::string& pattern) {
  std::vector<std::string> out;
  if (is_http(pattern)) {
    if (const std::string shown = shown_path(pattern); shown.find('*') != std::string::npos)
      fail(Code::unimplemented,
           "'{}' is a pattern: web servers may list no folders; name each file, or read from s3://", shown);
    if (files.exists(pattern)) out.push_back(pattern);
  } else {
    const std::size_t root = root_bytes(pattern);
    add_matching(files, pattern.substr(0, root), std::string_view(pattern).substr(root), out);
  }
  if (out.empty()) fail(Code::not_found, "{}: there is no such file", shown_path(pattern));
  std::ranges::sort(out);
  return out;
}

}  // namespace troupe
