#include "troupe/devices/storage/file_systems.hpp"

#include <cstdlib>

#include <troupe/devices/storage/remote/http_file_system.hpp>
#include <troupe/devices/storage/remote/s3_file_system.hpp>
#include <troupe/devices/storage/remote/url.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

HttpOptions http_options() { return {.ca_bundle = environment("CURL_CA_BUNDLE")}; }

// The files of this machine under their URLs (RFC 8089). Nothing is percent-decoded: the rest is the path.
class FileUrls final : public FileSystem {
 public:
  std::unique_ptr<WritableFile> create(const std::string& path) override { return here_.create(local(path)); }
  std::unique_ptr<ReadableFile> open(const std::string& path) override { return here_.open(local(path)); }
  bool exists(const std::string& path) override { return here_.exists(local(path)); }
  std::vector<DirectoryEntry> list(const std::string& directory) override { return here_.list(local(directory)); }
  void rename(const std::string& from, const std::string& to) override { here_.rename(local(from), local(to)); }
  void exchange(const std::string& a, const std::string& b) override { here_.exchange(local(a), local(b)); }
  void remove(const std::string& file) override { here_.remove(local(file)); }
  void make_directory(const std::string& path) override { here_.make_directory(local(path)); }
  void remove_directory(const std::string& path) override { here_.remove_directory(local(path)); }
  void sync_directory(const std::string& path) override { here_.sync_directory(local(path)); }

 private:
  static std::string local(std::string_view url) {
    constexpr std::string_view kScheme = "file://", kHost = "localhost";
    std::string_view path = url.substr(kScheme.size());
    if (path.starts_with(kHost)) path.remove_prefix(kHost.size());
    if (!path.starts_with('/')) invalid_argument("'{}' is no file of this machine: expected file:///PATH", url);
    return std::string(path);
  }
  FileSystem& here_ = posix_file_system();
};

}  // namespace

FileSystem& file_system_of(std::string_view path) {
  const std::string_view scheme = scheme_of(path);
  if (scheme.empty()) return posix_file_system();
  if (scheme == "file") {
    static FileUrls files;
    return files;
  }
  if (is_http(path)) {
    static HttpFileSystem files(http_options());
    return files;
  }
  if (scheme == "s3") {
    static S3FileSystem files(s3_options_of(&environment), http_options());
    return files;
  }
  invalid_argument("'{}': unknown scheme '{}': expected file://, http://, https://, s3://, or a path without one", path,
                   scheme);
}

FileSystem& file_system_of(const std::vector<std::string>& paths) {
  if (paths.empty()) invalid_argument("no files are named");
  FileSystem& files = file_system_of(paths[0]);
  for (const std::string& path : paths)
    if (&file_system_of(path) != &files)
      invalid_argument("'{}' and '{}' are on different file systems: all must be on one", shown_path(paths[0]),
                       shown_path(path));
  return files;
}

}  // namespace troupe
