#include "troupe/devices/storage/remote/s3_options.hpp"

#include <troupe/devices/storage/remote/url.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {

void check_s3_endpoint(const std::string& endpoint) {
  const std::size_t host = endpoint.find("://") + 3;
  if (!is_http(endpoint) || host == endpoint.size() || endpoint[host] == '/' ||
      endpoint.find_first_of("?#@ ") != endpoint.npos)
    invalid_argument(
        "the S3 endpoint '{}' is no address: expected https://HOST or http://HOST:PORT in AWS_ENDPOINT_URL",
        shown_path(endpoint));
}

S3Options s3_options_of(FunctionRef<std::string(const char* name)> variable) {
  const auto first_of = [&](const char* name, const char* other) {
    const std::string value = variable(name);
    return value.empty() ? variable(other) : value;
  };
  S3Options out;
  out.credentials = {variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"), variable("AWS_SESSION_TOKEN")};
  if (out.credentials.access_key_id.empty() != out.credentials.secret_access_key.empty())
    invalid_argument("{} is set, but {} is not: set both, or none for anonymous access",
                     out.credentials.access_key_id.empty() ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID",
                     out.credentials.access_key_id.empty() ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY");
  if (const std::string region = first_of("AWS_REGION", "AWS_DEFAULT_REGION"); !region.empty()) out.region = region;
  out.endpoint = first_of("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL");
  if (!out.endpoint.empty()) check_s3_endpoint(out.endpoint);
  return out;
}

}  // namespace troupe
