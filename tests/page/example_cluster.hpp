// A cluster that trains, as its snapshots tell it after some seconds: all figures follow from the time.
#pragma once

#include <troupe/actors/base/snapshot.hpp>

namespace troupe::testing {

inline constexpr std::int64_t kExampleBegin = 1'800'000'000'000'000'000;  // unix_ns of second 0

struct ExampleCluster {
  int ps = 2;
  int workers = 3;
  int inputs = 0;  // tasks that make batches; workers wait for their slow stage, "map decode"
  double steps_per_second = 180;

  ClusterSnapshot at(double seconds) const;
};

// One process that trains by itself.
ClusterSnapshot alone_at(double seconds);

// As if it had stopped.
void silence(ClusterSnapshot& snapshot, const std::string& task);
TaskReport& report_of(ClusterSnapshot& snapshot, const std::string& task);

}  // namespace troupe::testing
