// A task in a child process, and the one here that runs graphs on it.
#pragma once

#include <functional>
#include <string>

#include "tools/bench/child.hpp"
#include <troupe/actors/cluster/task.hpp>

namespace troupe::bench {

class RemoteTask {
 public:
  // Starts the child of this kind (children.hpp), and joins it. Without a sign of life for `peer_timeout` the client
  // takes the child for gone.
  explicit RemoteTask(const std::string& kind = "serve", std::chrono::seconds peer_timeout = std::chrono::seconds(10));

  static constexpr const char* kName = "/job:worker/task:0";  // of its devices, the beginning
  Task& client() { return client_; }
  pid_t pid() const { return child_.pid(); }
  // A line of its input.
  void tell(const std::string& line) { child_.write_line(line); }

  // What the child does: says its port, reads the cluster, then works.
  static void serve(const std::function<void(Task&)>& work);
  // The same, for others until its input ends.
  static void serve();

 private:
  Child child_;
  Task client_;
};

}  // namespace troupe::bench
