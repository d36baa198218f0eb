// Inspects a cluster from outside: finds the introspector of a task, and tries other tasks if it does not answer.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/introspection/cluster_view.hpp>
#include <troupe/actors/network/cluster_spec.hpp>
#include <troupe/actors/network/network_options.hpp>

namespace troupe {

// Thread-safe; calls are serialised.
class Observer {
 public:
  struct Options {
    // "HOST:PORT", the advertised address of a task; or an address printed by troupe-launch or --introspect-port,
    // "http://HOST:PORT/#token=..."; or "" for any task of the cluster.
    std::string address;
    std::optional<ClusterSpec> cluster;  // for the token and the other tasks
    NetworkOptions network;              // certificates
  };
  // Makes no connection yet. Throws invalid_argument for a malformed address, or without address and cluster.
  explicit Observer(Options options);
  ~Observer();

  // The answer of the first task that can give one. Throws unavailable with each task's error, or the error that
  // applies to all (unauthenticated).
  ClusterSnapshot snapshot();
  std::string get(const std::string& path);  // "/why"
  // All tasks of the cluster known to the answering task, including itself.
  std::vector<KnownTask> tasks();
  // The flight record of the named task (see find_task), from the task itself. Throws as find_task and ask_task.
  std::string flight_record(const std::string& task);
  // The task that answers; none before the first answer.
  std::optional<HttpTarget> target() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe
