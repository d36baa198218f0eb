// Where object stores of S3's interface are, and who asks.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include <troupe/messages/function_ref.hpp>

namespace troupe {

struct AwsCredentials {
  std::string access_key_id{}, secret_access_key{};
  std::string session_token{};  // "": none
};

struct S3Options {
  AwsCredentials credentials{};  // no access key: requests are anonymous
  std::string region = "us-east-1";
  std::string endpoint{};  // "http://127.0.0.1:9000"; empty: AWS's of the region
  // How a bucket is named: in the host (https://BUCKET.s3.REGION.amazonaws.com/KEY) or before the key.
  // `automatic`: before the key at an endpoint of one's own, or for a bucket whose name has dots, which TLS cannot
  // verify.
  enum class Style { automatic, host, path };
  Style style = Style::automatic;
  std::function<std::chrono::system_clock::time_point()> now{};  // null: the system's clock
};

// Those of the variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION or AWS_DEFAULT_REGION,
// AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, as AWS's programs take them; `variable` returns "" for one that is not set.
// Throws invalid_argument for one key without the other and for an endpoint that is no address.
S3Options s3_options_of(FunctionRef<std::string(const char* name)> variable);

// Throws invalid_argument if it is not "http://HOST[:PORT]" or https, maybe with a path.
void check_s3_endpoint(const std::string& endpoint);

}  // namespace troupe
