// Growth rates of counters, from two snapshots of a cluster. Unknown rates are none: items missing from the first
// snapshot, of a task restarted in between, or whose counter went back (a different actor).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/base/snapshot.hpp>

namespace troupe::top {

using Rate = std::optional<double>;  // per second; a share of time: 0 to 1

struct ActorRates {
  Rate messages;  // handled by the actor or directly
  Rate sent, busy;
  std::map<std::string, double> by_type;  // without unknown ones
};

struct DeviceRates {
  Rate busy, nodes;
};

struct ShardRates {
  std::map<std::string, double> counts;  // of ShardSnapshot::counts, likewise
  Rate of(const std::string& count) const {
    const auto found = counts.find(count);
    return found == counts.end() ? Rate{} : found->second;
  }
};

struct LinkRates {
  Rate bytes_sent, bytes_received, frames_sent, frames_received;
};

struct PipelineRates {
  Rate made, waited;           // batches
  std::vector<Rate> elements;  // by stage
};

struct ServableRates {
  Rate answered, failed;  // requests
  // Of the time between the snapshots; without the first, of all time.
  LatencySnapshot total;
};

// Vectors are in the order of the second snapshot.
struct TaskRates {
  Rate seconds;  // between the snapshots, by the task's clock
  std::vector<ActorRates> actors;
  std::vector<DeviceRates> devices;
  std::vector<ShardRates> shards;
  std::vector<PipelineRates> pipelines;
  std::vector<ServableRates> servables;
  std::vector<LinkRates> links;
  Rate job_steps;
  Rate steps, examples;  // of the task's own training loop
  Rate step;             // of the job, as seen by the task
};

struct ClusterRates {
  std::vector<TaskRates> tasks;
};

// Requests of a version.
std::uint64_t answered(const ServableSnapshot& servable);
std::uint64_t failed(const ServableSnapshot& servable);

ClusterRates rates(const ClusterSnapshot& before, const ClusterSnapshot& after);
// All rates unknown.
ClusterRates no_rates(const ClusterSnapshot& snapshot);

}  // namespace troupe::top
