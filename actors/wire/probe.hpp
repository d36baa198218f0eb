// Looks at a port that CAF could not connect to: CAF does not say why.
#pragma once

#include "actors/wire/connection.hpp"
#include "actors/wire/tls.hpp"

namespace troupe::wire {

// Connects, lets both sides check their certificates (`tls` null: none), and waits for the first bytes of whoever
// listens there, which are not looked at. Blocks. Throws unauthenticated: they do not trust each other, or one of
// them does not speak TLS; unavailable: nobody is there, or it went away; deadline_exceeded.
void probe(const TlsContext* tls, const Address& address, Clock::time_point deadline);

}  // namespace troupe::wire
