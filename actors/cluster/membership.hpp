// How a process becomes a task of a cluster: started by troupe-launch, which assigns its place, or by hand with --job,
// --task and a cluster file. Task::from_command_line() builds on this.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include <troupe/actors/cluster/launch_handshake.hpp>
#include <troupe/actors/cluster/task.hpp>

namespace troupe {

// Command-line settings (membership_options.hpp).
struct Membership {
  std::string job;
  int index = -1;                         // -1: not given
  std::string file;                       // of the cluster; empty under troupe-launch
  std::chrono::seconds join_timeout{60};  // limit for all tasks to come up
  NetworkOptions network;
  int introspect_port = -1;      // -1: any; none without a cluster
  std::string flight_directory;  // "": the directory for temporary files

  // Applies the settings common to all tasks, in a cluster or not.
  void set(TaskOptions& options) const;
  bool given() const { return !job.empty() || index >= 0 || !file.empty(); }
  TaskName name() const { return {job, index}; }
  // A message for people if options are missing or superfluous; none if they name a place in a cluster.
  std::optional<std::string> problem(bool launched) const;
};

// A started task, and the cluster it is to join.
struct Member {
  std::unique_ptr<Task> task;
  ClusterSpec cluster;
  bool started_again = false;  // by troupe-launch: the others are running, or have ended

  // Joins for training: waits for the parameter servers, and for the workers at most 5 s, and only if all of them
  // should be there: later ones may join the training. In a cluster without parameter servers it waits for all tasks.
  // Throws as Task::join().
  void join_for_training(std::chrono::nanoseconds timeout, bool all_workers = true);
};

// Starts the task at its address in the cluster file or, with a handshake, at a free port that it reports. Does not
// wait for the other tasks. If options.threads is 0, the devices of all tasks on this host share its cores; a parameter
// server uses no GPU unless options.gpus.count says so. Throws not_found if the cluster has no such task, and any error
// from reading the file, the handshake or starting the task.
Member start_member(const Membership& membership, LaunchHandshake* handshake, TaskOptions options,
                    std::chrono::steady_clock::time_point deadline);

// A warning about the cluster's token, for people; none if the token is good.
std::optional<std::string> token_warning(const ClusterSpec& cluster, const NetworkOptions& network);

// The introspection address of the task, for people; none without one.
std::optional<std::string> introspection_note(Task& task);

// Cores of this machine / tasks / devices, at least 1.
int threads_per_device(int tasks, int devices);

}  // namespace troupe
