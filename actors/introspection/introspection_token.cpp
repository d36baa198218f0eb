#include "troupe/actors/introspection/introspection_token.hpp"

#include <fmt/core.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <string_view>

#include <troupe/actors/wire/authentication.hpp>

namespace troupe {

std::string introspection_token(const std::string& cluster_token, const std::string& cluster) {
  constexpr std::string_view kPurpose = "troupe introspection";
  if (cluster_token.empty()) return "";
  const wire::TokenKey key(cluster_token, cluster);  // not the token itself, which may be guessable
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (!HMAC(EVP_sha256(), key.bytes().data(), static_cast<int>(key.bytes().size()),
            reinterpret_cast<const unsigned char*>(kPurpose.data()), kPurpose.size(), digest, &size))
    return "";
  std::string out;
  for (unsigned i = 0; i < 16; ++i) out += fmt::format("{:02x}", digest[i]);
  return out;
}

}  // namespace troupe
