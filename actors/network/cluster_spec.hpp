// The cluster file: the tasks of a cluster and their addresses.
//   {"name":"demo","token":"...","ps":["127.0.0.1:7701"],"worker":["127.0.0.1:7711","127.0.0.1:7712"]}
// Jobs may have any names; training knows ps, worker and input. With "max_workers":4, workers 2 and 3, which have no
// address in the file, may also join at any time: they dial the others.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/messages/device_name.hpp>

namespace troupe {

// The job of tasks that make batches for workers.
inline constexpr std::string_view kInputJob = "input";
// Of tasks with models, and of those that send requests to them.
inline constexpr std::string_view kServeJob = "serve", kRouterJob = "router";

struct HostPort {
  std::string host{};
  std::uint16_t port = 0;
  auto operator<=>(const HostPort&) const = default;
  std::string to_string() const;
  // Parses "127.0.0.1:7701" or "[::1]:7701". Throws invalid_argument.
  static HostPort parse(std::string_view text);
};

struct ClusterSpec {
  std::string name{};
  std::string token{};
  std::map<TaskName, HostPort> tasks{};
  int max_workers = 0;  // workers with smaller indices may join, even without an address; 0: none may

  // Throws invalid_argument naming the problem: the malformed text, the unknown or missing key, the task without a
  // valid address, or the address shared by two tasks. The token may be "" if all tasks have loopback addresses.
  static ClusterSpec parse(std::string_view json, std::string_view source);
  // Also throws not_found, and permission_denied if others may read a file that holds a token.
  static ClusterSpec read(const std::string& path);
  std::string to_json() const;

  bool contains(const TaskName& task) const { return tasks.contains(task); }
  // True if the task has an address, or needs none.
  bool may_join(const TaskName& task) const;
  // Throws not_found, listing the existing tasks.
  const HostPort& address(const TaskName& task) const;
  int count(std::string_view job) const;
  std::vector<TaskName> tasks_of(std::string_view job) const;  // by index
  // Number of tasks on the host of `task`, which share its cores.
  int tasks_on_host_of(const TaskName& task) const;
};

}  // namespace troupe
