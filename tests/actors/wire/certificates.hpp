// Certificates for tests, made when they run.
#pragma once

#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <troupe/actors/wire/tls.hpp>

namespace troupe::testing {

// A CA that writes what it issues into a directory.
class Authority {
 public:
  struct Wish {
    int from_days = -1;  // of validity, from now
    int to_days = 1;
    bool readable_key = false;
  };

  Authority(std::filesystem::path directory, std::string name)
      : directory_(std::move(directory)),
        name_(std::move(name)),
        key_(new_key()),
        certificate_(make(key_.get(), name_, {}, true)) {
    write(path(name_ + ".pem"), 0644, [&](BIO* out) { PEM_write_bio_X509(out, certificate_.get()); });
  }

  std::string ca_file() const { return path(name_ + ".pem"); }

  // A certificate and its key, NAME.pem and NAME.key.
  TlsFiles issue(const std::string& name) { return issue(name, Wish{}); }
  TlsFiles issue(const std::string& name, const Wish& wish) {
    const Key key = new_key();
    const Certificate certificate = make(key.get(), name, wish, false);
    const TlsFiles files{path(name + ".pem"), path(name + ".key"), ca_file()};
    write(files.certificate, 0644, [&](BIO* out) { PEM_write_bio_X509(out, certificate.get()); });
    write(files.key, wish.readable_key ? 0644 : 0600,
          [&](BIO* out) { PEM_write_bio_PrivateKey(out, key.get(), nullptr, nullptr, 0, nullptr, nullptr); });
    return files;
  }

 private:
  using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
  using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

  std::string path(const std::string& file) const { return (directory_ / file).string(); }

  static Key new_key() { return {EVP_EC_gen("P-256"), &EVP_PKEY_free}; }

  Certificate make(EVP_PKEY* key, const std::string& name, const Wish& wish, bool authority) {
    constexpr long kDay = 24 * 3600;
    Certificate made(X509_new(), &X509_free);
    X509* const x = made.get();
    X509_set_version(x, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(x), ++serial_);
    X509_gmtime_adj(X509_getm_notBefore(x), wish.from_days * kDay);
    X509_gmtime_adj(X509_getm_notAfter(x), wish.to_days * kDay);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    X509_set_issuer_name(x, authority ? X509_get_subject_name(x) : X509_get_subject_name(certificate_.get()));
    X509_set_pubkey(x, key);
    if (X509_EXTENSION* basic = X509V3_EXT_conf_nid(nullptr, nullptr, NID_basic_constraints,
                                                    authority ? "critical,CA:TRUE" : "critical,CA:FALSE")) {
      X509_add_ext(x, basic, -1);
      X509_EXTENSION_free(basic);
    }
    EXPECT_GT(X509_sign(x, authority ? key : key_.get(), EVP_sha256()), 0);
    return made;
  }

  template <class Fill>
  static void write(const std::string& path, mode_t mode, const Fill& fill) {
    const std::unique_ptr<BIO, decltype(&BIO_free)> out(BIO_new_file(path.c_str(), "w"), &BIO_free);
    ASSERT_TRUE(out) << path;
    fill(out.get());
    (void)BIO_flush(out.get());
    ::chmod(path.c_str(), mode);
  }

  std::filesystem::path directory_;
  std::string name_;
  long serial_ = 0;
  Key key_;
  Certificate certificate_;
};

}  // namespace troupe::testing
