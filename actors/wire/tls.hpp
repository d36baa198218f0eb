// TLS 1.3 on the connections of the wire, with certificates on both sides: whoever dials and whoever is dialed
// shows one that a CA of TlsFiles::ca has signed, or the connection ends before a byte of a frame is looked at.
//
// The CA stands for membership: it should be the cluster's own. Names in certificates are not compared with
// addresses; who a task is, it proves with the cluster's token (authentication.hpp).
#pragma once

#include <memory>

#include <troupe/actors/wire/channel.hpp>
#include <troupe/actors/wire/tls_files.hpp>

namespace troupe::wire {

// The files, read once. Immutable; any thread.
class TlsContext {
 public:
  struct State;
  // Throws, naming the file: invalid_argument (one is not given, or not what it should be), not_found,
  // permission_denied, failed_precondition (a certificate that peers would not accept: it has expired, the key is
  // of another, no CA of the file has signed it).
  explicit TlsContext(const TlsFiles& files);

  std::unique_ptr<Channel> channel(Fd socket, bool dialed) const;

 private:
  std::shared_ptr<const State> state_;
};

}  // namespace troupe::wire
