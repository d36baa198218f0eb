// The child of the case stress/heartbeat.
#pragma once

namespace troupe::bench {

// Says its port; then, for each line it reads, how late the heartbeats since the last line were: the 99th percentile,
// in ms.
void listen_to_beats();

}  // namespace troupe::bench
