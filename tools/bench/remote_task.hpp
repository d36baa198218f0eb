// A task in a child process, and a client of it here.
#pragma once

#include "actors/cluster/task.hpp"
#include "tools/bench/child.hpp"

namespace troupe::bench {

class RemoteTask {
 public:
  // Starts the child, and joins it.
  RemoteTask();

  static constexpr const char* kName = "/job:worker/task:0";  // of its devices, the beginning
  Task& client() { return client_; }
  pid_t pid() const { return child_.pid(); }

  // What the child does (children.hpp): says its port, reads the cluster, serves until its input ends.
  static void serve();

 private:
  Child child_;
  Task client_;
};

}  // namespace troupe::bench
