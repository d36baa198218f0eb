// A task in a child process, and a local task that runs graphs on it.
#pragma once

#include <functional>
#include <string>

#include "tools/bench/child.hpp"
#include <troupe/actors/cluster/task.hpp>

namespace troupe::bench {

class RemoteTask {
 public:
  // Starts a child of this kind (children.hpp) and joins it. The client considers the child lost after `peer_timeout`
  // without a sign of life.
  explicit RemoteTask(const std::string& kind = "serve", std::chrono::seconds peer_timeout = std::chrono::seconds(10));

  static constexpr const char* kName = "/job:worker/task:0";  // prefix of its device names
  Task& client() { return client_; }
  pid_t pid() const { return child_.pid(); }
  // Writes a line to the child's input.
  void tell(const std::string& line) { child_.write_line(line); }

  // Runs in the child: reports its port, reads the cluster, then works.
  static void serve(const std::function<void(Task&)>& work);
  // The same, but serves others until its input ends.
  static void serve();

 private:
  Child child_;
  Task client_;
};

}  // namespace troupe::bench
