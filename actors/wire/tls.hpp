// TLS 1.3 on the connections of the wire, with certificates on both sides: dialler and listener each present one signed
// by a CA of TlsFiles::ca, or the connection ends before any byte of a frame is examined.
//
// The CA proves membership: it should be the cluster's own. Names in certificates are not compared with addresses; a
// task proves its identity with the cluster's token (authentication.hpp).
#pragma once

#include <memory>

#include <troupe/actors/wire/channel.hpp>
#include <troupe/actors/wire/tls_files.hpp>

namespace troupe::wire {

// The files, read once. Immutable; any thread.
class TlsContext {
 public:
  struct State;
  // Throws, naming the file: invalid_argument (missing, or malformed), not_found, permission_denied,
  // failed_precondition (a certificate that peers would reject: it has expired, its key does not match, or no CA of the
  // file has signed it).
  explicit TlsContext(const TlsFiles& files);

  std::unique_ptr<Channel> channel(Fd socket, bool dialed) const;

 private:
  std::shared_ptr<const State> state_;
};

}  // namespace troupe::wire
