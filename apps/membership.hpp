// How an app becomes a task of a cluster: started by troupe-launch, which gives it its place, or by hand with
// --job, --task and a cluster file.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "actors/cluster/task.hpp"
#include "apps/launch_handshake.hpp"

namespace troupe {

// What the command line says about it.
struct Membership {
  std::string job;
  int index = -1;                         // -1: not given
  std::string file;                       // of the cluster; empty under troupe-launch
  std::chrono::seconds join_timeout{60};  // within which all tasks must come
  NetworkOptions network;
  int introspect_port = -1;      // -1: any; and a task of no cluster has none
  std::string flight_directory;  // "": that of temporary files

  // What all tasks have, of a cluster or not.
  void set(TaskOptions& options) const;
  bool given() const { return !job.empty() || index >= 0 || !file.empty(); }
  TaskName name() const { return {job, index}; }
  // What is missing or too much, for people; none if it is a place in a cluster.
  std::optional<std::string> problem(bool launched) const;
};

struct Member {
  std::unique_ptr<Task> task;
  ClusterSpec cluster;
};

// Starts the task, at its address in the cluster file or, with a handshake, at a free port that it reports.
// Does not wait for the other tasks: see Task::join. If options.threads is 0, the devices of all tasks on
// this host share its cores. Throws not_found if the cluster has no such task, and what reading the file, the
// handshake or starting the task throws.
Member start_member(const Membership& membership, LaunchHandshake* handshake, TaskOptions options,
                    std::chrono::steady_clock::time_point deadline);

// What is wrong with the cluster's token, for people; none if it is a good one.
std::optional<std::string> token_warning(const ClusterSpec& cluster, const NetworkOptions& network);

// Cores of this machine / tasks / devices, at least 1.
int threads_per_device(int tasks, int devices);

}  // namespace troupe
