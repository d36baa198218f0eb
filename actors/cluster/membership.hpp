// How a process becomes a task of a cluster: started by troupe-launch, which assigns its name, or by hand with --job,
// --task and a cluster file. Task::from_command_line() builds on this.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/cluster/launch_handshake.hpp>
#include <troupe/actors/cluster/task.hpp>

namespace troupe {

// Command-line settings (membership_options.hpp).
struct Membership {
  std::string job;
  int index = -1;                         // -1 if not given
  std::string file;                       // of the cluster; empty under troupe-launch
  std::chrono::seconds join_timeout{60};  // time limit for all tasks to come up
  NetworkOptions network;
  int introspect_port = -1;      // -1: any port; no socket without a cluster
  std::string flight_directory;  // "": the directory for temporary files
  std::vector<std::string> op_libraries, device_libraries;

  // Applies the settings common to all tasks, in a cluster or not.
  void set(TaskOptions& options) const;
  bool given() const { return !job.empty() || index >= 0 || !file.empty(); }
  TaskName name() const { return {job, index}; }
  // A user-visible message if options are missing or superfluous; none if they name a task of a cluster.
  std::optional<std::string> problem(bool launched) const;
};

// A started task, and the cluster to join.
struct Member {
  std::unique_ptr<Task> task;
  ClusterSpec cluster;
  bool started_again = false;  // restarted by troupe-launch: the other tasks are running, or have ended

  // Joins for training: waits for the parameter servers, and at most 5 s for the workers, and only if all of them
  // should be present: later ones may join the training. In a cluster without parameter servers it waits for all tasks.
  // Throws as Task::join().
  void join_for_training(std::chrono::nanoseconds timeout, bool all_workers = true);
};

// Starts the task at its address in the cluster file or, with a handshake, at a free port that it reports. Does not
// wait for the other tasks. If options.threads is 0, the devices of all tasks on this host share its cores; a parameter
// server uses no GPU unless options.gpus.count says so. Throws not_found if the cluster has no such task, and any error
// from reading the file, the handshake or starting the task.
Member start_member(const Membership& membership, LaunchHandshake* handshake, TaskOptions options,
                    std::chrono::steady_clock::time_point deadline);

// A user-visible warning about the cluster's token; none if the token is good.
std::optional<std::string> token_warning(const ClusterSpec& cluster, const NetworkOptions& network);

// A user-visible note with the introspection address of the task; none without one.
std::optional<std::string> introspection_note(Task& task);

// Cores of this machine / tasks / devices, at least 1.
int threads_per_device(int tasks, int devices);

}  // namespace troupe
