#include "troupe/actors/network/network_options.hpp"

#include <algorithm>

#include <troupe/actors/wire/authentication.hpp>
#include <troupe/actors/wire/wire.hpp>

namespace troupe {

std::optional<std::string> NetworkOptions::problem() const {
  constexpr std::uint64_t kMostTensor = 1ull << 40;
  if (tls.given() && (tls.certificate.empty() || tls.key.empty() || tls.ca.empty()))
    return "--tls-cert, --tls-key and --tls-ca belong together: TLS needs all three";
  if (tls.given() && insecure) return "--insecure means no TLS, but certificates are given: choose one";
  if (max_tensor < wire::kMaxChunk || max_tensor > kMostTensor)
    return fmt::format("--max-tensor: expected 256KiB to 1TiB, not {} bytes", max_tensor);
  if (in_flight < 2 * wire::kMaxChunk)
    return fmt::format("--in-flight: expected 512KiB or more, not {} bytes", in_flight);
  if (max_strangers <= 0) return "--max-strangers: expected 1 or more";
  if (max_connections <= 0) return "--max-connections: expected 1 or more";
  if (hello_timeout.count() <= 0) return "--hello-timeout: expected more than 0";
  if (peer_timeout < std::chrono::milliseconds(100)) return "--peer-timeout: expected 0.1 s or more";
  return std::nullopt;
}

WireOptions NetworkOptions::wire() const {
  if (const auto wrong = problem()) invalid_argument("{}", *wrong);
  WireOptions out;
  if (tls.given()) out.tls = std::make_shared<wire::TlsContext>(tls);
  out.shared_memory = shared_memory;
  out.connection.limits.max_tensor_bytes = max_tensor;
  out.connection.limits.max_payload = 2 * max_tensor;
  out.connection.window = in_flight;
  out.max_strangers = static_cast<std::size_t>(max_strangers);
  out.max_connections = static_cast<std::size_t>(max_connections);
  out.handshake_timeout = hello_timeout;
  out.down_after = peer_timeout;
  out.suspect_after = peer_timeout / 4;
  out.heartbeat_every = std::min(out.heartbeat_every, peer_timeout / 10);
  return out;
}

void NetworkOptions::check(const HostPort& address) const {
  if (is_loopback(address.host) || tls.given() || insecure) return;
  fail(Code::failed_precondition,
       "{} is reachable from other machines: pass --tls-cert, --tls-key and --tls-ca, or --insecure if only "
       "trusted "
       "machines are on that network, since traffic would be unencrypted",
       address.to_string());
}

void NetworkOptions::check(const HostPort& address, const std::string& token) const {
  check(address);
  if (is_loopback(address.host) || tls.given() || wire::is_strong_token(token)) return;
  fail(
      Code::failed_precondition,
      "{} is reachable from other machines, but the cluster has {}: set \"token\" in the cluster file to the output of "
      "'troupe-launch --make-token', "
      "or pass --tls-cert, --tls-key and --tls-ca",
      address.to_string(), token.empty() ? "no token" : "a guessable token");
}

bool is_loopback(const std::string& host) {
  const bool numeric = host.find_first_not_of("0123456789.") == std::string::npos;
  return host == "localhost" || host == "::1" || (numeric && host.starts_with("127."));
}

}  // namespace troupe
