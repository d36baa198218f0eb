// The links of a task to the others of its cluster: finds their nodes over CAF, then keeps one data connection to each,
// with a peer actor at its end.
//
// Of two tasks of a cluster the one with the greater name says hello and dials: when both connected to each other at once,
// hellos were seen to stay unanswered, and no longer since. A client, which is in no cluster file, dials all.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/cluster/cluster_spec.hpp"
#include "actors/cluster/node_actor.hpp"
#include "actors/wire/wire.hpp"
#include "graph/placement.hpp"

namespace troupe {

struct MetTask {
  TaskName task;
  NodeActor node;
  std::vector<DeviceInfo> devices;
};

class Links {
 public:
  struct Config {
    TaskIdentity identity;
    WireOptions wire;  // without what follows from `identity`
    caf::actor_system& system;
    ActorRegistry& registry;
    LocalNodeActor node;
    SchedulerActor scheduler;
    RendezvousActor rendezvous;
    CollectiveActor collective;
    std::function<std::string(std::uint16_t data_port)> welcome;  // what this task says of itself
  };
  // Listens for data connections. Throws unavailable.
  explicit Links(Config config);
  ~Links();

  // Lets the node answer the hellos of others, says hello to those that are ours to dial, and waits until a link to every
  // other task is up. Throws deadline_exceeded naming
  // those that did not come; or what a peer that refused us said.
  std::vector<MetTask> meet(const ClusterSpec& cluster, std::chrono::nanoseconds deadline);

  // Says goodbye to all and ends the wire's thread.
  void shutdown();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe
