#include "troupe/devices/storage/remote/http_file_system.hpp"

#include <utility>

#include <troupe/devices/storage/remote/remote_client.hpp>
#include <troupe/devices/storage/remote/remote_file.hpp>
#include <troupe/devices/storage/remote/url.hpp>

namespace troupe {

HttpFileSystem::HttpFileSystem(HttpOptions options)
    : ReadOnlyFileSystem("http"),
      client_(std::make_unique<RemoteClient>(std::move(options), std::make_unique<const PlainHttp>())) {}
HttpFileSystem::~HttpFileSystem() = default;

std::unique_ptr<ReadableFile> HttpFileSystem::open(const std::string& url) {
  if (!is_http(url)) invalid_argument("'{}' is no URL: expected http://HOST/PATH or https://HOST/PATH", url);
  return std::make_unique<RemoteFile>(*client_, RemoteRequest{.url = url, .shown = shown_path(url)});
}

bool HttpFileSystem::exists(const std::string& url) {
  try {
    open(url);
    return true;
  } catch (const Error& error) {
    if (error.code() == Code::not_found) return false;
    throw;
  }
}

std::vector<DirectoryEntry> HttpFileSystem::list(const std::string& url) {
  fail(Code::unimplemented,
       "cannot list '{}': http has no folders; name each file instead of a pattern, or read from s3://",
       shown_path(url));
}

}  // namespace troupe
