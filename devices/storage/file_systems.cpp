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

HttpOptions http_options(RemoteAttempts attempts) {
  HttpOptions out{.ca_bundle = environment("CURL_CA_BUNDLE")};
  if (attempts == RemoteAttempts::once) out.attempts = 1;
  return out;
}

FileSystem& web_files(RemoteAttempts attempts) {
  static HttpFileSystem several(http_options(RemoteAttempts::several)), once(http_options(RemoteAttempts::once));
  return attempts == RemoteAttempts::once ? once : several;
}

FileSystem& store_files(RemoteAttempts attempts) {
  static S3FileSystem several(s3_options_of(&environment), http_options(RemoteAttempts::several));
  static S3FileSystem once(s3_options_of(&environment), http_options(RemoteAttempts::once));
  return attempts == RemoteAttempts::once ? once : several;
}

// The path of a URL of this machine's files (RFC 8089). Nothing is percent-decoded.
std::string local_path(std::string_view url) {
  constexpr std::string_view kScheme = "file://", kHost = "localhost";
  std::string_view path = url.substr(kScheme.size());
  if (path.starts_with(kHost)) path.remove_prefix(kHost.size());
  if (!path.starts_with('/')) invalid_argument("'{}' is no file of this machine: expected file:///PATH", url);
  return std::string(path);
}

class AllFileSystems final : public FileSystem {
 public:
  std::unique_ptr<WritableFile> create(const std::string& path) override { return on(path, &FileSystem::create); }
  std::unique_ptr<ReadableFile> open(const std::string& path) override { return on(path, &FileSystem::open); }
  bool exists(const std::string& path) override { return on(path, &FileSystem::exists); }
  std::vector<DirectoryEntry> list(const std::string& path) override { return on(path, &FileSystem::list); }
  void rename(const std::string& from, const std::string& to) override { on(from, to, &FileSystem::rename); }
  void exchange(const std::string& a, const std::string& b) override { on(a, b, &FileSystem::exchange); }
  void remove(const std::string& path) override { on(path, &FileSystem::remove); }
  void make_directory(const std::string& path) override { on(path, &FileSystem::make_directory); }
  void remove_directory(const std::string& path) override { on(path, &FileSystem::remove_directory); }
  void sync_directory(const std::string& path) override { on(path, &FileSystem::sync_directory); }

 private:
  struct Place {
    FileSystem& files;
    std::string path;  // as they take it
  };
  static Place here(const std::string& path) {
    if (scheme_of(path) == "file") return {posix_file_system(), local_path(path)};
    return {file_system_of(path), path};
  }
  template <class Result>
  static Result on(const std::string& path, Result (FileSystem::*what)(const std::string&)) {
    const Place at = here(path);
    return (at.files.*what)(at.path);
  }
  static void on(const std::string& a, const std::string& b,
                 void (FileSystem::*what)(const std::string&, const std::string&)) {
    const Place first = here(a), second = here(b);
    if (&first.files != &second.files)
      fail(Code::unimplemented, "'{}' and '{}' are on different file systems", shown_path(a), shown_path(b));
    (first.files.*what)(first.path, second.path);
  }
};

}  // namespace

FileSystem& file_system_of(std::string_view path, RemoteAttempts attempts) {
  const std::string_view scheme = scheme_of(path);
  if (scheme.empty()) return posix_file_system();
  if (scheme == "file") return all_file_systems();
  if (is_http(path)) return web_files(attempts);
  if (scheme == "s3") return store_files(attempts);
  invalid_argument("'{}': unknown scheme '{}': expected file://, http://, https://, s3://, or a path without one", path,
                   scheme);
}

FileSystem& all_file_systems() {
  static AllFileSystems files;
  return files;
}

}  // namespace troupe
