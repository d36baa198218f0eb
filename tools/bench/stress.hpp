// The child of the case stress/heartbeat.
#pragma once

namespace troupe::bench {

// Reports its port; then, for each line of input, the delay of the heartbeats since the last line: 99th percentile, in
// ms.
void listen_to_beats();

}  // namespace troupe::bench
