// A client of TLS that does not care whom it speaks to.
#pragma once

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "tests/actors/wire/wire_testing.hpp"

namespace troupe::wire {

// A peer that speaks TLS with what certificate it likes, or none, and trusts everybody.
class LooseTlsPeer {
 public:
  LooseTlsPeer(std::uint16_t port, const TlsFiles* files, int version = TLS1_3_VERSION)
      : context_(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free), ssl_(nullptr, &SSL_free) {
    SSL_CTX_set_max_proto_version(context_.get(), version);
    if (files) {
      EXPECT_EQ(SSL_CTX_use_certificate_file(context_.get(), files->certificate.c_str(), SSL_FILETYPE_PEM), 1);
      EXPECT_EQ(SSL_CTX_use_PrivateKey_file(context_.get(), files->key.c_str(), SSL_FILETYPE_PEM), 1);
    }
    ssl_.reset(SSL_new(context_.get()));
    socket_.connect(port);
    SSL_set_fd(ssl_.get(), socket_.fd());
  }
  // Ends when the other side has closed.
  void insist(const std::string& bytes) {
    char byte = 0;
    if (SSL_connect(ssl_.get()) == 1) (void)SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()));
    while (SSL_read(ssl_.get(), &byte, 1) > 0) {
    }
    ERR_clear_error();
  }
  // Does the other side answer a dialler, once TLS is up?
  bool is_answered() {
    const std::string opening = opening_of(kA, kB);
    char byte = 0;
    const bool heard = SSL_connect(ssl_.get()) == 1 &&
                       SSL_write(ssl_.get(), opening.data(), static_cast<int>(opening.size())) > 0 &&
                       SSL_read(ssl_.get(), &byte, 1) == 1;
    ERR_clear_error();
    return heard;
  }

 private:
  RawPeer socket_;
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
};

}  // namespace troupe::wire
