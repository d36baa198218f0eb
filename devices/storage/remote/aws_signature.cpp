#include "troupe/devices/storage/remote/aws_signature.hpp"

#include <fmt/chrono.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>

#include <troupe/devices/storage/remote/url.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

std::string hex_digits(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

std::string sha256(std::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (EVP_Digest(text.data(), text.size(), digest, &size, EVP_sha256(), nullptr) != 1)
    fail(Code::internal, "OpenSSL cannot compute SHA-256");
  return {reinterpret_cast<const char*>(digest), size};
}

std::string hmac_sha256(std::string_view key, std::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (!HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
            text.size(), digest, &size))
    fail(Code::internal, "OpenSSL cannot compute HMAC-SHA-256");
  return {reinterpret_cast<const char*>(digest), size};
}

std::vector<std::pair<std::string, std::string>> sorted_headers(const AwsRequest& request) {
  auto out = request.headers;
  std::ranges::sort(out);
  return out;
}

std::string signed_names(const AwsRequest& request) {
  std::string out;
  for (const auto& [name, unused] : sorted_headers(request)) out += (out.empty() ? "" : ";") + name;
  return out;
}

}  // namespace

std::string aws_time(std::chrono::system_clock::time_point now) {
  return fmt::format("{:%Y%m%dT%H%M%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(now)));
}

std::string aws_query(const std::vector<std::pair<std::string, std::string>>& query) {
  std::vector<std::pair<std::string, std::string>> encoded;
  for (const auto& [name, value] : query) encoded.emplace_back(percent_encode(name), percent_encode(value));
  std::ranges::sort(encoded);
  std::string out;
  for (const auto& [name, value] : encoded) out += fmt::format("{}{}={}", out.empty() ? "" : "&", name, value);
  return out;
}

std::string aws_canonical_request(const AwsRequest& request) {
  std::string out = fmt::format("{}\n{}\n{}\n", request.method, request.path, request.query);
  for (const auto& [name, value] : sorted_headers(request)) out += fmt::format("{}:{}\n", name, value);
  return out += fmt::format("\n{}\n{}", signed_names(request), request.payload_sha256);
}

std::string aws_authorization(const AwsRequest& request, const AwsCredentials& credentials, std::string_view region,
                              std::string_view service, std::string_view time) {
  constexpr std::string_view kAlgorithm = "AWS4-HMAC-SHA256", kEnd = "aws4_request";
  const std::string_view date = time.substr(0, 8);
  const std::string scope = fmt::format("{}/{}/{}/{}", date, region, service, kEnd);
  const std::string text =
      fmt::format("{}\n{}\n{}\n{}", kAlgorithm, time, scope, hex_digits(sha256(aws_canonical_request(request))));
  std::string key = "AWS4" + credentials.secret_access_key;
  for (const std::string_view part : {date, region, service, kEnd}) key = hmac_sha256(key, part);
  return fmt::format("{} Credential={}/{},SignedHeaders={},Signature={}", kAlgorithm, credentials.access_key_id, scope,
                     signed_names(request), hex_digits(hmac_sha256(key, text)));
}

}  // namespace troupe
