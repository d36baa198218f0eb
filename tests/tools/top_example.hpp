// A cluster as troupe-top may see it: a parameter server, two workers, and one that is silent.
#pragma once

#include "tools/top/observation.hpp"

namespace troupe::testing {

// At `second` seconds after the start. Counters grow evenly: 100 messages, 10 steps, 640 images, 1 MiB per second and
// more.
ClusterSnapshot example_cluster(double second);

// The example at 2 s, with the rates since 1 s, and waits that were put in by hand.
top::Observation example_observation();

}  // namespace troupe::testing
