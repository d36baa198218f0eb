#include "troupe/devices/storage/remote/s3_file_system.hpp"

#include <algorithm>
#include <utility>

#include <troupe/devices/storage/remote/aws_signature.hpp>
#include <troupe/devices/storage/remote/remote_client.hpp>
#include <troupe/devices/storage/remote/remote_file.hpp>
#include <troupe/devices/storage/remote/s3_answers.hpp>
#include <troupe/devices/storage/remote/url.hpp>

namespace troupe {
namespace {

constexpr int kKeysOfPage = 1000;  // the most that servers give
constexpr std::size_t kMostPageBytes = 16 << 20;
constexpr int kMostPages = 10'000;
constexpr std::size_t kMostKeyBytes = 1024;

// "https", "host:9000", "/path" of a URL without a query.
struct UrlParts {
  std::string_view scheme, authority, path;
};

UrlParts parts_of(std::string_view url) {
  const std::string_view scheme = scheme_of(url);
  const std::string_view rest = url.substr(scheme.size() + 3);
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  return {scheme, rest.substr(0, slash), rest.substr(slash)};
}

// Signs requests, each at its time.
class S3Service final : public RemoteService {
 public:
  explicit S3Service(S3Options options) : options_(std::move(options)) {}

  void prepare(RemoteRequest& request) const override {
    if (options_.credentials.access_key_id.empty()) return;
    const std::size_t query = std::min(request.url.find('?'), request.url.size());
    const UrlParts parts = parts_of(std::string_view(request.url).substr(0, query));
    const std::string time = aws_time(options_.now ? options_.now() : std::chrono::system_clock::now());
    AwsRequest aws{.method = request.head ? "HEAD" : "GET",
                   .path = std::string(parts.path),
                   .query = query < request.url.size() ? request.url.substr(query + 1) : "",
                   .headers = {{"host", std::string(parts.authority)},
                               {"x-amz-content-sha256", std::string(kSha256OfNothing)},
                               {"x-amz-date", time}},
                   .payload_sha256 = std::string(kSha256OfNothing)};
    if (!options_.credentials.session_token.empty())
      aws.headers.emplace_back("x-amz-security-token", options_.credentials.session_token);
    for (const auto& [name, value] : aws.headers) request.headers.push_back(fmt::format("{}: {}", name, value));
    request.headers.push_back("Authorization: " +
                              aws_authorization(aws, options_.credentials, options_.region, "s3", time));
  }

  Error refusal(const RemoteAnswer& answer) const override {
    return s3_refusal(answer, options_.credentials.access_key_id.empty() ? "" : options_.region);
  }

 private:
  const S3Options options_;
};

S3Options with_endpoint(S3Options options) {
  if (options.endpoint.empty()) return options;
  check_s3_endpoint(options.endpoint);
  while (options.endpoint.ends_with('/')) options.endpoint.pop_back();
  return options;
}

}  // namespace

S3FileSystem::S3FileSystem(S3Options s3, HttpOptions http)
    : ReadOnlyFileSystem("s3"),
      s3_(with_endpoint(std::move(s3))),
      client_(std::make_unique<RemoteClient>(std::move(http), std::make_unique<const S3Service>(s3_))) {}
S3FileSystem::~S3FileSystem() = default;

S3FileSystem::Place S3FileSystem::place_of(const std::string& path) {
  if (scheme_of(path) != "s3") invalid_argument("'{}' is no path of S3: expected s3://BUCKET/KEY", path);
  std::string_view rest = std::string_view(path).substr(std::string_view("s3://").size());
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  const std::string_view bucket = rest.substr(0, slash);
  rest.remove_prefix(std::min(slash + 1, rest.size()));
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
           c == '_';
  };
  if (bucket.size() < 3 || bucket.size() > 63 || !std::ranges::all_of(bucket, fits))
    invalid_argument("'{}': '{}' is no name of a bucket: it has 3 to 63 letters, digits, '.', '-' or '_'", path,
                     bucket);
  if (rest.size() > kMostKeyBytes)
    invalid_argument("'{}': the key has {} bytes; S3 allows {}", path, rest.size(), kMostKeyBytes);
  return {std::string(bucket), std::string(rest)};
}

std::string S3FileSystem::url_of(const Place& place) const {
  const bool dotted = place.bucket.find('.') != place.bucket.npos;
  const bool in_path = s3_.style == S3Options::Style::path ||
                       (s3_.style == S3Options::Style::automatic && (dotted || !s3_.endpoint.empty()));
  const std::string_view end = s3_.region.starts_with("cn-") ? ".cn" : "";
  const std::string endpoint =
      s3_.endpoint.empty() ? fmt::format("https://s3.{}.amazonaws.com{}", s3_.region, end) : s3_.endpoint;
  const std::string key = percent_encode(place.key, true);
  if (in_path) return fmt::format("{}/{}/{}", endpoint, place.bucket, key);
  const UrlParts parts = parts_of(endpoint);
  return fmt::format("{}://{}.{}{}/{}", parts.scheme, place.bucket, parts.authority, parts.path, key);
}

std::unique_ptr<ReadableFile> S3FileSystem::open(const std::string& path) {
  const Place place = place_of(path);
  if (place.key.empty())
    fail(Code::failed_precondition, "cannot open '{}': it is a bucket; name an object in it", path);
  return std::make_unique<RemoteFile>(*client_,
                                      RemoteRequest{.url = url_of(place), .shown = path, .follow_redirects = false});
}

std::vector<DirectoryEntry> S3FileSystem::page(const std::string& path, const std::string& prefix, int most,
                                               std::string& token) {
  std::vector<std::pair<std::string, std::string>> query = {{"delimiter", "/"},
                                                            {"encoding-type", "url"},
                                                            {"list-type", "2"},
                                                            {"max-keys", std::to_string(most)},
                                                            {"prefix", prefix}};
  if (!token.empty()) query.emplace_back("continuation-token", token);
  const RemoteRequest request{.url = fmt::format("{}?{}", url_of({place_of(path).bucket, ""}), aws_query(query)),
                              .shown = path,
                              .follow_redirects = false,
                              .most_text = kMostPageBytes};
  const RemoteAnswer answer = client_->send(request);
  if (answer.status != 200) client_->refuse(request, answer);
  if (answer.too_long) fail(Code::data_loss, "cannot list '{}': a page has more than {} bytes", path, kMostPageBytes);
  try {
    S3Page page = parse_s3_page(answer.text, prefix);
    if (!token.empty() && page.next == token) fail(Code::data_loss, "the server gives the same page again");
    token = std::move(page.next);
    return std::move(page.entries);
  } catch (const Error& error) {
    fail(error.code(), "cannot list '{}': {}; is the endpoint one of S3?", path, error.message());
  }
}

std::vector<DirectoryEntry> S3FileSystem::list(const std::string& directory) {
  std::string prefix = place_of(directory).key;
  if (!prefix.empty() && !prefix.ends_with('/')) prefix += '/';
  std::vector<DirectoryEntry> out;
  std::string token;
  for (int pages = 0; pages == 0 || !token.empty(); ++pages) {
    if (pages == kMostPages)
      fail(Code::resource_exhausted, "cannot list '{}': it has more than {} pages of entries", directory, kMostPages);
    for (DirectoryEntry& entry : page(directory, prefix, kKeysOfPage, token)) out.push_back(std::move(entry));
  }
  if (out.empty() && !prefix.empty())
    fail(Code::not_found, "cannot list '{}': no object's key begins with '{}'", directory, prefix);
  std::ranges::sort(out, {}, &DirectoryEntry::name);
  return out;
}

bool S3FileSystem::exists(const std::string& path) {
  std::string prefix = place_of(path).key;
  if (!prefix.empty() && !prefix.ends_with('/')) {
    try {
      open(path);
      return true;
    } catch (const Error& error) {
      if (error.code() != Code::not_found) throw;
    }
    prefix += '/';
  }
  std::string token;
  return !page(path, prefix, 2, token).empty() || prefix.empty();
}

}  // namespace troupe
