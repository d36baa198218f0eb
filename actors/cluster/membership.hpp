// How a process becomes a task of a cluster: started by troupe-launch, which gives it its place, or by hand with
// --job, --task and a cluster file. Programs call Task::from_command_line(), which is made of this.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include <troupe/actors/cluster/launch_handshake.hpp>
#include <troupe/actors/cluster/task.hpp>

namespace troupe {

// What the command line says about it (membership_options.hpp).
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

// A task that has started, and the cluster that it is to join.
struct Member {
  std::unique_ptr<Task> task;
  ClusterSpec cluster;
  bool started_again = false;  // by troupe-launch: the others are at work, or have ended

  // Joins to train: waits for the parameter servers. For the workers it waits 5 s at most, and only if all of them
  // should be there: training takes those that come later. In a cluster without parameter servers it waits for all
  // tasks. Throws as Task::join().
  void join_for_training(std::chrono::nanoseconds timeout, bool all_workers = true);
};

// Starts the task, at its address in the cluster file or, with a handshake, at a free port that it reports.
// Does not wait for the other tasks. If options.threads is 0, the devices of all tasks on this host share its cores;
// a parameter server uses no GPU unless options.gpus.count says so. Throws not_found if the cluster has no such task,
// and what reading the file, the handshake or starting the task throws.
Member start_member(const Membership& membership, LaunchHandshake* handshake, TaskOptions options,
                    std::chrono::steady_clock::time_point deadline);

// What is wrong with the cluster's token, for people; none if it is a good one.
std::optional<std::string> token_warning(const ClusterSpec& cluster, const NetworkOptions& network);

// Where the task can be looked into, for people; none if nowhere.
std::optional<std::string> introspection_note(Task& task);

// Cores of this machine / tasks / devices, at least 1.
int threads_per_device(int tasks, int devices);

}  // namespace troupe
