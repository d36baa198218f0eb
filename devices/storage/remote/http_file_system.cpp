#include "troupe/devices/storage/remote/http_file_system.hpp"

#include <utility>

#include <troupe/devices/storage/remote/http_listing.hpp>
#include <troupe/devices/storage/remote/remote_client.hpp>
#include <troupe/devices/storage/remote/remote_file.hpp>
#include <troupe/devices/storage/remote/url.hpp>

namespace troupe {
namespace {

constexpr std::size_t kMostListing = 16 << 20;  // bytes

}  // namespace

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
  if (!is_http(url)) invalid_argument("'{}' is no URL: expected http://HOST/PATH or https://HOST/PATH", url);
  const std::string_view path = std::string_view(url).substr(0, url.find_first_of("?#"));
  RemoteRequest request{.url = path.ends_with('/') ? url : with_suffix(url, "/"), .shown = shown_path(url)};
  request.most_text = kMostListing;
  const RemoteAnswer answer = client_->send(request);
  if (answer.status != 200) client_->refuse(request, answer);
  if (answer.too_long)
    fail(Code::resource_exhausted, "cannot list '{}': the answer has more than {} bytes", request.shown, kMostListing);
  try {
    return parse_http_listing(answer.text);
  } catch (const Error& error) {
    fail(Code::unimplemented,
         "cannot list '{}': the server gives no listing of a folder: {}; have it list them (nginx: autoindex_format "
         "xml), or name each file",
         request.shown, error.message());
  }
}

}  // namespace troupe
