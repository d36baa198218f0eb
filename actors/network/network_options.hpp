// How a task deals with others over a network: whom it lets in, what it takes from them, and how long it waits. Every
// limit in one place.
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
  TlsFiles tls{};             // if given, connections are TLS, with certificates on both sides
  bool insecure = false;      // without TLS: addresses that other machines reach too
  bool shared_memory = true;  // frames to tasks of this host pass through memory, without TLS

  std::uint64_t max_tensor = Limits{}.max_tensor_bytes;  // bytes; the tensors of one frame: twice that
  std::uint64_t in_flight = wire::kDefaultWindow;        // bytes of large tensors that a peer may send unacknowledged
  int max_strangers = wire::kDefaultMaxStrangers;        // connections whose peers have not proved who they are
  int max_connections = wire::kDefaultMaxConnections;    // peers at once
  std::chrono::milliseconds hello_timeout = wire::kDefaultHandshakeTimeout;  // from a connection to its Hello
  std::chrono::milliseconds peer_timeout = wire::kDefaultDownAfter;          // a peer without a sign of life is lost

  // What makes no sense, for people, naming the option of the command line; none if all is well.
  std::optional<std::string> problem() const;
  // What the wire makes of it; the files of TLS are read here. Throws invalid_argument for a problem(), and what
  // wire::TlsContext throws.
  WireOptions wire() const;
  // May a task listen at, or dial, this address? Throws failed_precondition.
  void check(const HostPort& address) const;
  // The same once it is known which token keeps strangers out there.
  void check(const HostPort& address, const std::string& token) const;
};

// 127.0.0.0/8, ::1 or localhost.
bool is_loopback(const std::string& host);

}  // namespace troupe
