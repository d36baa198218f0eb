#include "apps/serve/shared_files.hpp"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "apps/serve/entity_tags.hpp"
#include <troupe/actors/http/json_text.hpp>
#include <troupe/devices/storage/file_systems.hpp>
#include <troupe/devices/storage/remote/http_listing.hpp>
#include <troupe/devices/storage/remote/url.hpp>
#include <troupe/messages/error.hpp>
#include <troupe/messages/nanoseconds.hpp>

namespace troupe {
namespace {

constexpr std::string_view kOnnxFile = ".onnx";
constexpr const char* kOnlyVersion = "1.onnx";
constexpr int kDeepestShared = 16;  // folders

bool may_be_shared(const DirectoryEntry& entry) {
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  return !entry.is_link && !entry.name.empty() && entry.name.front() != '.' &&
         entry.name.find_first_of("/\\") == std::string::npos && std::ranges::none_of(entry.name, control);
}

// A file or a folder of a model.
class SharedPlace {
 public:
  SharedPlace(FileSystem& files, const std::string& model_path) : files_(files), path_(model_path) {
    if (!model_path.ends_with(kOnnxFile)) return;
    try {
      files_.list(model_path);
    } catch (const Error&) {  // a file
      only_file_ = true;
    }
  }

  // Goes to an entry of this folder; false: there is none of this name.
  bool enter(std::string_view name) {
    if (!is_folder_) return false;
    const std::vector<DirectoryEntry> there = entries();
    const auto found = std::ranges::find(there, name, &DirectoryEntry::name);
    if (found == there.end()) return false;
    is_folder_ = found->is_directory;
    if (!only_file_) path_ = join_path(path_, found->name);
    return true;
  }
  std::vector<DirectoryEntry> entries() const {
    if (only_file_) return {{.name = kOnlyVersion}};
    std::vector<DirectoryEntry> out = files_.list(path_);
    std::erase_if(out, [](const DirectoryEntry& entry) { return !may_be_shared(entry); });
    return out;
  }
  bool is_folder() const { return is_folder_; }
  std::unique_ptr<ReadableFile> open() const { return files_.open(path_); }
  // Of the file as it is now: its ETag; "": it is on no file system of this machine.
  std::string tag() const {
    struct stat status {};
    if (&files_ != &posix_file_system() || ::stat(path_.c_str(), &status) != 0) return "";
    return fmt::format("\"{:x}-{:x}\"", status.st_size, status.st_mtim.tv_sec * kSecond + status.st_mtim.tv_nsec);
  }

 private:
  FileSystem& files_;
  std::string path_;
  bool only_file_ = false;  // the model is one
  bool is_folder_ = true;
};

SharedPlace place_in(const std::string& model_path, const std::string& name) {
  SharedPlace out(file_system_of(model_path), model_path);
  int depth = 0;
  std::string_view rest = name;
  while (!rest.empty()) {
    const std::size_t slash = std::min(rest.find('/'), rest.size());
    if (++depth > kDeepestShared || !out.enter(rest.substr(0, slash)))
      fail(Code::not_found, "the model has no file '{}'", name);
    rest.remove_prefix(std::min(slash + 1, rest.size()));
  }
  if (name.ends_with('/') && !out.is_folder()) fail(Code::not_found, "the model has no folder '{}'", name);
  return out;
}

struct ByteRange {
  std::uint64_t first = 0, last = 0;  // with the last
};

// "bytes=0-99" (RFC 9110, 14.2). Others are ignored, as a server may.
std::optional<ByteRange> parse_byte_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes=";
  if (!text.starts_with(kUnit)) return std::nullopt;
  const char *at = text.data() + kUnit.size(), *const end = text.data() + text.size();
  ByteRange out;
  const auto first = std::from_chars(at, end, out.first);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '-') return std::nullopt;
  const auto last = std::from_chars(first.ptr + 1, end, out.last);
  if (last.ec != std::errc() || last.ptr != end || out.last < out.first) return std::nullopt;
  return out;
}

HttpAnswer changed_file(const std::string& name) {
  return {.status = 412,
          .body = json_text({{"error", fmt::format("'{}' has changed: read it from its beginning", name)}})};
}

HttpAnswer part_of(ReadableFile& file, const SharedFileRequest& request, const std::string& tag) {
  const std::string& name = request.name;
  const std::uint64_t size = file.size();
  HttpAnswer out{.type = "application/octet-stream"};
  out.headers["Accept-Ranges"] = "bytes";
  std::optional<ByteRange> range = parse_byte_range(request.range);
  if (range && !request.if_range.empty() && !has_entity_tag(request.if_range, tag)) {
    if (size > kMostSharedBytes) return changed_file(name);  // not sent as a whole
    range.reset();
  }
  if (range && range->first >= size) {
    out.status = 416;
    out.headers["Content-Range"] = fmt::format("bytes */{}", size);
    return out;
  }
  if (!range && size > kMostSharedBytes)
    invalid_argument("'{}' has {} bytes: ask for parts of at most {}, by Range: bytes=0-{}", name, size,
                     kMostSharedBytes, kMostSharedBytes - 1);
  const std::uint64_t first = range ? range->first : 0;
  std::uint64_t bytes = size - first;
  if (range) bytes = std::min(bytes - 1, range->last - first) + 1;
  bytes = std::min<std::uint64_t>(bytes, kMostSharedBytes);
  out.body.resize(static_cast<std::size_t>(bytes));
  file.read(first, std::as_writable_bytes(std::span(out.body)));
  if (!range) return out;
  out.status = 206;
  out.headers["Content-Range"] = fmt::format("bytes {}-{}/{}", first, first + bytes - 1, size);
  return out;
}

HttpAnswer file_answer(const SharedPlace& place, const SharedFileRequest& request) {
  const std::string tag = place.tag();
  HttpAnswer out;
  if (!request.if_match.empty() && !has_entity_tag(request.if_match, tag)) {
    out = changed_file(request.name);
  } else if (!request.if_none_match.empty() && has_weak_entity_tag(request.if_none_match, tag)) {
    out.status = 304;
  } else {
    out = part_of(*place.open(), request, tag);
    if (place.tag() != tag) fail(Code::unavailable, "'{}' has changed while it was read: ask again", request.name);
  }
  if (!tag.empty()) out.headers["ETag"] = tag;
  return out;
}

}  // namespace

HttpAnswer shared_file(const std::string& model_path, const SharedFileRequest& request) {
  if (is_http(model_path))
    fail(Code::unimplemented, "this server reads the files from {}: ask there", shown_path(model_path));
  const SharedPlace place = place_in(model_path, request.name);
  if (place.is_folder()) return {.type = "text/xml", .body = print_http_listing(place.entries())};
  if (request.head) {
    HttpAnswer out{.status = 405};
    out.headers["Allow"] = "GET";
    return out;
  }
  return file_answer(place, request);
}

}  // namespace troupe
