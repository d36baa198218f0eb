// A process of our own that answers line by line; it ends when we do.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include <troupe/actors/network/cluster_spec.hpp>

namespace troupe::bench {

class Child {
 public:
  // command[0] is a path. Its standard error is ours. Throws not_found if it cannot be executed.
  explicit Child(const std::vector<std::string>& command);
  ~Child();  // closes its input, and kills it if it has not ended soon
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  void write_line(const std::string& line);
  // Without the line's end. Throws unavailable if the child has ended, deadline_exceeded.
  std::string read_line(std::chrono::seconds deadline = std::chrono::seconds(120));

 private:
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
  std::string buffered_;
};

// For a child that joins the cluster.
std::string in_one_line(const ClusterSpec& cluster);

// The path of this program.
std::string own_path();
// Of this program: scripts and libraries that it uses are found from there.
std::string build_directory();

}  // namespace troupe::bench
