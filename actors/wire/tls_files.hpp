// The files that make connections TLS (tls.hpp).
#pragma once

#include <string>

namespace troupe {

// PEM files. All three, or none.
struct TlsFiles {
  std::string certificate{};  // of this task; the certificates of intermediate CAs may follow in it
  std::string key{};          // of the certificate; without a passphrase, not readable by everybody
  std::string ca{};           // of the CAs whose certificates are trusted
  bool given() const { return !certificate.empty() || !key.empty() || !ca.empty(); }
};

}  // namespace troupe
