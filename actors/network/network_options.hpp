// How a task treats peers on the network: admission, accepted frames, and timeouts. All limits in one place.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include <troupe/actors/network/cluster_spec.hpp>
#include <troupe/actors/wire/defaults.hpp>
#include <troupe/actors/wire/tls_files.hpp>
#include <troupe/messages/limits.hpp>

namespace troupe {

struct WireOptions;

struct NetworkOptions {
  TlsFiles tls{};             // if given, connections use TLS with certificates on both sides
  bool insecure = false;      // allows addresses reachable from other machines without TLS
  bool shared_memory = true;  // tasks on one host exchange frames through shared memory, without TLS

  std::uint64_t max_tensor = Limits{}.max_tensor_bytes;  // bytes; the limit for all tensors of one frame is twice that
  std::uint64_t in_flight = wire::kDefaultWindow;        // bytes of large tensors that a peer may send unacknowledged
  int max_strangers = wire::kDefaultMaxStrangers;        // unauthenticated connections
  int max_connections = wire::kDefaultMaxConnections;    // connected peers
  std::chrono::milliseconds hello_timeout = wire::kDefaultHandshakeTimeout;  // from a connection to its Hello
  std::chrono::milliseconds peer_timeout = wire::kDefaultDownAfter;  // silence after which a peer counts as lost

  // A user-visible message about an invalid setting, naming the command-line option; none if all are valid.
  std::optional<std::string> problem() const;
  // Options for the wire; reads the TLS files. Throws invalid_argument for a problem(), and the errors of
  // wire::TlsContext.
  WireOptions wire() const;
  // Checks that a task may listen on, or dial, this address. Throws failed_precondition.
  void check(const HostPort& address) const;
  // Same, once the token, which protects against strangers, is known.
  void check(const HostPort& address, const std::string& token) const;
};

// 127.0.0.0/8, ::1 or localhost.
bool is_loopback(const std::string& host);

}  // namespace troupe
