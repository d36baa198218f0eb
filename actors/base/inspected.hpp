// An actor's report beyond its counters, for the introspector.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/base/snapshot.hpp>

namespace troupe {

struct ActorDetails {
  Waiting waiting;
  std::string waits_for;  // in words; "" if none
  std::int64_t waits_ns = 0;
  std::vector<ShardSnapshot> shards;
  std::optional<JobSnapshot> job;
  std::vector<PipelineSnapshot> pipelines;
  std::vector<ServableSnapshot> servables;
  std::map<std::string, std::string> running;  // by device: the node that runs on it
};

class Inspected {
 public:
  // Adds to `out`. Called on any thread between two messages of the actor, which waits meanwhile: keep it short.
  virtual void inspect(ActorDetails& out) const = 0;

 protected:
  ~Inspected() = default;
};

}  // namespace troupe
