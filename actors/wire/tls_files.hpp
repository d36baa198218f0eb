// The files for TLS connections (tls.hpp).
#pragma once

#include <string>

namespace troupe {

// PEM files: all three, or none.
struct TlsFiles {
  std::string certificate{};  // of this task; may be followed by certificates of intermediate CAs
  std::string key{};          // of the certificate; no passphrase, not readable by everybody
  std::string ca{};           // certificates of the trusted CAs
  bool given() const { return !certificate.empty() || !key.empty() || !ca.empty(); }
};

}  // namespace troupe
