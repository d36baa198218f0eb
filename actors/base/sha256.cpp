#include "troupe/actors/base/sha256.hpp"

#include <openssl/evp.h>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

EVP_MD_CTX* hashing(void* context) { return static_cast<EVP_MD_CTX*>(context); }

void check_hashed(int result) {
  if (result != 1) fail(Code::internal, "OpenSSL cannot compute SHA-256");
}

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new(), [](void* context) { EVP_MD_CTX_free(hashing(context)); }) {
  check_hashed(EVP_DigestInit_ex(hashing(context_.get()), EVP_sha256(), nullptr));
}

void Sha256::add(std::span<const std::byte> bytes) {
  check_hashed(EVP_DigestUpdate(hashing(context_.get()), bytes.data(), bytes.size()));
}

void Sha256::add_text(std::string_view text) {
  add(std::as_bytes(std::span(text)));
  add(std::as_bytes(std::span("", 1)));
}

std::string Sha256::hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  check_hashed(EVP_DigestFinal_ex(hashing(context_.get()), digest, &size));
  std::string out;
  for (unsigned i = 0; i < size; ++i) out += fmt::format("{:02x}", digest[i]);
  return out;
}

}  // namespace troupe
