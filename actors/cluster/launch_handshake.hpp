// The task's side of troupe-launch. Addresses are unknown before the tasks run, so a task binds port 0, reports its
// address, and then receives the cluster file. Two pipes carry this, named by the environment variable
//   TROUPE_LAUNCH=<report fd>,<cluster fd>,<tasks>
// where <tasks> is the number of tasks started by the launcher: they share the cores of this machine. The task writes
// one line "HOST:PORT" to the first pipe, and reads one line, the path of the cluster file, from the second. A
// restarted task finds the path in TROUPE_LAUNCH_CLUSTER, and binds its address in that file. The launcher's side:
// tools/launch/launch.cpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

// Owns the pipes and closes them on destruction. Reports a dead launcher as Code::unavailable.
class LaunchHandshake {
 public:
  // Returns nullopt if this process was not started by troupe-launch. Removes the variable from the environment, so
  // that child processes take no part. Throws invalid_argument if the variable is malformed.
  static std::optional<LaunchHandshake> from_environment();

  LaunchHandshake(LaunchHandshake&& other) noexcept;
  LaunchHandshake& operator=(LaunchHandshake&&) = delete;
  ~LaunchHandshake();

  // Number of tasks of the cluster on this machine, including this one.
  int tasks() const { return tasks_; }
  // For a restarted task: path of the cluster file, which contains its address. Otherwise empty.
  const std::string& known_cluster_file() const { return known_; }
  // Reports that the task is reachable at host:port. Call once. Throws unavailable.
  void report(std::string_view host, std::uint16_t port);
  // Returns the path of the cluster file, which exists while the launcher lives. Throws deadline_exceeded or
  // unavailable.
  std::string wait_for_cluster_file(std::chrono::steady_clock::time_point deadline);

 private:
  LaunchHandshake(int report_fd, int cluster_fd, int tasks, std::string known)
      : report_fd_(report_fd), cluster_fd_(cluster_fd), tasks_(tasks), known_(std::move(known)) {}

  int report_fd_;
  int cluster_fd_;
  int tasks_;
  std::string known_;
};

}  // namespace troupe
