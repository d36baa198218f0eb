// Looks into a cluster from outside: finds the introspector of a task, and asks another task when that one does not
// answer.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/introspection/cluster_view.hpp>
#include <troupe/actors/network/cluster_spec.hpp>
#include <troupe/actors/network/network_options.hpp>

namespace troupe {

// Thread-safe; calls wait for each other.
class Observer {
 public:
  struct Options {
    // "HOST:PORT", the advertised address of a task; or what troupe-launch and --introspect-port print,
    // "http://HOST:PORT/#token=...". "": any task of the cluster.
    std::string address;
    std::optional<ClusterSpec> cluster;  // has the token, and the other tasks
    NetworkOptions network;              // certificates
  };
  // Asks nobody yet. Throws invalid_argument for an address that is none, or neither address nor cluster.
  explicit Observer(Options options);
  ~Observer();

  // From the first task that answers. Throws unavailable with what each said, or what says that no task will answer
  // (unauthenticated).
  ClusterSnapshot snapshot();
  std::string get(const std::string& path);  // "/why"
  // All tasks of the cluster that are known to the one that answers, it too.
  std::vector<KnownTask> tasks();
  // Of the task of this name, as find_task takes it; asks the task itself. Throws what find_task and ask_task do.
  std::string flight_record(const std::string& task);
  // Where the answers come from; none before the first.
  std::optional<HttpTarget> target() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe
