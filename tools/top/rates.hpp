// How fast counters grow, from two snapshots of a cluster. What is not known is none: what was not in the first
// snapshot, whose task has been started again in between, or whose counter went back (its actor is another).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/base/snapshot.hpp>

namespace troupe::top {

using Rate = std::optional<double>;  // per second; a share of the time: 0 to 1

struct ActorRates {
  Rate messages;  // handled and passed
  Rate sent, busy;
  std::map<std::string, double> by_type;  // without those that are not known
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

// Each vector has the order of that in the second snapshot.
struct TaskRates {
  Rate seconds;  // between the two, by the clock of the task
  std::vector<ActorRates> actors;
  std::vector<DeviceRates> devices;
  std::vector<ShardRates> shards;
  std::vector<LinkRates> links;
  Rate job_steps;
  Rate steps, examples;  // of the task's own training loop
  Rate step;             // of the job, as the task sees it
};

struct ClusterRates {
  std::vector<TaskRates> tasks;
};

ClusterRates rates(const ClusterSnapshot& before, const ClusterSnapshot& after);
// None is known.
ClusterRates no_rates(const ClusterSnapshot& snapshot);

}  // namespace troupe::top
