// Signatures of requests to AWS and to servers of its interface: Signature Version 4
// (docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html).
//
// libcurl's CURLOPT_AWS_SIGV4 is not used: in version 7.88 it sorts and encodes no query strings.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/devices/storage/remote/s3_options.hpp>

namespace troupe {

struct AwsRequest {
  std::string_view method = "GET";
  std::string path = "/";                                      // percent-encoded
  std::string query{};                                         // as aws_query() makes it
  std::vector<std::pair<std::string, std::string>> headers{};  // those to sign: lower-case names
  std::string payload_sha256{};                                // in hexadecimal digits
};

inline constexpr std::string_view kSha256OfNothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

// "20130524T000000Z"
std::string aws_time(std::chrono::system_clock::time_point now);
// "a=1&b=%20", sorted.
std::string aws_query(const std::vector<std::pair<std::string, std::string>>& query);
// The text whose hash is signed.
std::string aws_canonical_request(const AwsRequest& request);
// The value of the header Authorization. `time` is that of the header x-amz-date.
std::string aws_authorization(const AwsRequest& request, const AwsCredentials& credentials, std::string_view region,
                              std::string_view service, std::string_view time);

}  // namespace troupe
