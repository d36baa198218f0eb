// A task's links to the other tasks of its cluster: keeps one connection to each, ending in a peer actor; the nodes of
// the two tasks meet over it too (control.hpp). Restores a lost link as soon as the other task is reachable: the same
// process, or a new one at the same address.
//
// Between two tasks of a cluster, the one with the greater name dials. A client, which is not in the cluster file,
// dials all.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <troupe/actors/cluster/node_actor.hpp>
#include <troupe/actors/introspection/cluster_view.hpp>
#include <troupe/actors/network/cluster_spec.hpp>
#include <troupe/actors/wire/wire.hpp>
#include <troupe/graph/placement/placement.hpp>

namespace troupe {

struct MetTask {
  TaskName task;
  NodeActor node;
  std::vector<DeviceInfo> devices;
};

class ClusterPeers {
 public:
  struct Config {
    TaskIdentity identity;
    std::function<void(const std::string&)> on_wait = nullptr;  // TaskOptions::on_wait
    std::chrono::nanoseconds wait_word{};
    ClusterSpec cluster;
    WireOptions wire;  // except fields derived from `identity`
    TlsFiles tls;      // of the introspectors
    caf::actor_system& system;
    ActorRegistry& registry;
    LocalNodeActor node;
    SchedulerActor scheduler;
    RendezvousActor rendezvous;
    CollectiveActor collective;
    InputActor input;
    IntrospectorActor introspector;
    std::string welcome;  // description of this task
  };
  explicit ClusterPeers(Config config);
  ~ClusterPeers();

  // Accepts connections at `listener`, dials the peers assigned to this task, and waits until links to all other tasks
  // of the job ("": of all jobs) are up. Throws deadline_exceeded naming the missing tasks, or the error of a peer that
  // rejected this task. Call once.
  void meet(wire::Fd listener, const std::string& job, std::chrono::nanoseconds deadline);
  // All tasks that this one has met so far.
  std::vector<MetTask> met() const;
  // Waits until the links to all tasks of the job are up. Throws as meet().
  void await(const std::string& job, std::chrono::nanoseconds timeout);
  // Waits until the link to this task is up. Returns the number of the link, which no other link gets; 0: it is not up
  // by then. Throws why this task has failed, failed_precondition once it has shut down.
  std::uint64_t await_link(const TaskName& task, std::chrono::nanoseconds timeout);
  // The node of the most recent process of the task; null if none was met.
  NodeActor node(const TaskName& task) const;

  // The links to all tasks of the cluster, and to currently connected clients.
  std::vector<LinkSnapshot> look() const;
  // The introspectors of the same tasks.
  std::vector<KnownTask> introspectors() const;
  // Current waits of threads in meet() and await().
  Waiting waiting() const;

  // Says goodbye to all peers and ends the wire's thread.
  void shutdown();
  // Ends all links with this reason and allows no new ones. Thread-safe.
  void end_all(const Error& why);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe
