#include "actors/cluster/control.hpp"

#include <algorithm>
#include <caf/actor_system_config.hpp>
#include <caf/io/middleman.hpp>
#include <caf/openssl/manager.hpp>
#include <caf/openssl/publish.hpp>
#include <caf/scoped_actor.hpp>

#include "actors/wire/probe.hpp"

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience(1);  // with CAF, which waits for ever where nobody speaks as it does

}  // namespace

void load_networking(caf::actor_system_config& config, const TlsFiles& tls) {
  config.set("middleman.workers", 1u);
  config.load<caf::io::middleman>();
  if (!tls.given()) return;
  config.openssl_certificate = tls.certificate;
  config.openssl_key = tls.key;
  config.openssl_cafile = tls.ca;
  config.load<caf::openssl::manager>();
}

std::uint16_t publish_node(const NodeActor& node, const std::string& host, std::uint16_t port) {
  // Reused: connections of a process that was here before may linger.
  caf::actor_system& system = node.home_system();
  const auto result = system.has_openssl_manager() ? caf::openssl::publish(node, port, host.c_str(), true)
                                                   : system.middleman().publish(node, port, host.c_str(), true);
  if (!result)
    fail(Code::unavailable, "cannot listen on {}:{}: {}", host, port,
         port == 0 ? system.render(result.error()) : "the port is in use, or the address is not of this host");
  return *result;
}

NodeActor connect_node(caf::actor_system& system, const wire::TlsContext* tls, const HostPort& address,
                       Clock::time_point deadline) {
  const Clock::time_point patience = std::min(deadline, Clock::now() + kPatience);
  caf::scoped_actor self(system);
  const caf::io::middleman_actor connector =
      system.has_openssl_manager() ? system.openssl_manager().actor_handle() : system.middleman().actor_handle();
  NodeActor found;
  bool other = false;
  self->request(connector, std::max(Clock::duration::zero(), patience - Clock::now()), caf::connect_atom::value,
                address.host, address.port)
      .receive(
          [&](const caf::node_id&, caf::strong_actor_ptr& ptr, const std::set<std::string>& interface) {
            other = !ptr || !system.assignable(interface, system.message_types<NodeActor>());
            if (!other) found = caf::actor_cast<NodeActor>(std::move(ptr));
          },
          [](const caf::error&) {});
  if (other) fail(Code::failed_precondition, "what listens there is not a Troupe node of this version");
  if (found) return found;
  // Not before CAF has tried: requests over a connection that followed such a look at once were sometimes never
  // answered.
  wire::probe(tls, wire::resolve(address.host, address.port), std::min(deadline, Clock::now() + kPatience));
  fail(Code::unavailable, "nobody answers");
}

}  // namespace troupe
