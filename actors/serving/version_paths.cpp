#include "troupe/actors/serving/version_paths.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include <troupe/actors/model/any_model.hpp>

namespace troupe {
namespace {

constexpr int kDeepest = 8;  // folders in a model's folder that are counted

std::size_t bytes_at(FileSystem& files, const std::string& path, bool directory, int depth = 0) {
  if (!directory) return files.open(path)->size();
  std::size_t out = 0;
  if (depth < kDeepest)
    for (const DirectoryEntry& entry : files.list(path))
      if (!entry.is_link) out += bytes_at(files, join_path(path, entry.name), entry.is_directory, depth + 1);
  return out;
}

// "3" of a folder, "3.onnx" of a file.
std::optional<std::int64_t> version_of(const DirectoryEntry& entry) {
  constexpr std::string_view kOnnx = ".onnx";
  std::string_view digits = entry.name;
  if (!entry.is_directory) {
    if (!digits.ends_with(kOnnx)) return std::nullopt;
    digits.remove_suffix(kOnnx.size());
  }
  std::int64_t out = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  if (error != std::errc() || end != digits.data() + digits.size() || out < 0) return std::nullopt;
  return out;
}

bool is_model(FileSystem& files, const std::string& path) {
  try {
    format_of_model(files, path);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::vector<FoundVersion> versions_at(FileSystem& files, const std::string& path,
                                      const std::map<std::string, std::size_t>& known_bytes) {
  const auto bytes_of = [&](const std::string& place, bool directory) {
    const auto known = known_bytes.find(place);
    return known != known_bytes.end() ? known->second : bytes_at(files, place, directory);
  };
  if (!files.exists(path)) fail(Code::not_found, "{}: there is nothing here", path);
  if (is_model(files, path)) {
    const bool file = path.ends_with(".onnx");
    return {{.version = 1, .path = path, .bytes = bytes_of(path, !file)}};
  }
  std::vector<FoundVersion> out;
  for (const DirectoryEntry& entry : files.list(path)) {
    const auto version = version_of(entry);
    if (!version) continue;
    const std::string place = join_path(path, entry.name);
    out.push_back({.version = *version, .path = place, .bytes = bytes_of(place, entry.is_directory)});
  }
  std::ranges::sort(out, {}, &FoundVersion::version);
  const auto same = std::ranges::adjacent_find(out, {}, &FoundVersion::version);
  if (same != out.end())
    fail(Code::invalid_argument, "{} and {} are the same version", same->path, std::next(same)->path);
  if (out.empty())
    fail(Code::not_found,
         "{} has no versions: folders, or files of ONNX, that are named by a number, such as {} or {}.onnx", path,
         join_path(path, "1"), join_path(path, "1"));
  return out;
}

}  // namespace troupe
