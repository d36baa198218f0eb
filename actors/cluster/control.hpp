// CAF's networking, which carries the requests of nodes: plain, or with CAF's OpenSSL module if there are certificates.
// That module checks them on both sides. It does not say why it refuses, sets no deadline for a handshake and no limit
// to strangers.
#pragma once

#include <caf/io/middleman_actor.hpp>

#include "actors/cluster/cluster_spec.hpp"
#include "actors/wire/tls.hpp"
#include "messages/protocol.hpp"

namespace troupe {

// Before the actor system is made. `tls` has been checked (wire::TlsContext): CAF reads the files for each connection.
void load_networking(caf::actor_system_config& config, const TlsFiles& tls);

// Returns the port. Throws unavailable.
std::uint16_t publish_node(const NodeActor& node, const std::string& host, std::uint16_t port);

// Connects to the node at `address`, with certificates if load_networking() got some, which are `tls` then, else null.
// Blocks. Throws why there is none: failed_precondition (something else listens), unauthenticated (the two do not trust
// each other, or one does not speak TLS), unavailable or deadline_exceeded (nobody answers; somebody may later).
NodeActor connect_node(caf::actor_system& system, const wire::TlsContext* tls, const HostPort& address,
                       std::chrono::steady_clock::time_point deadline);

}  // namespace troupe
