// A child process that answers line by line; it ends when we do.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include <troupe/actors/network/cluster_spec.hpp>

namespace troupe::bench {

class Child {
 public:
  // command[0] is a path. Its standard error is appended to the file `errors`, or is ours if there is none. Throws
  // not_found if it cannot be executed.
  explicit Child(const std::vector<std::string>& command, const std::string& errors = "");
  ~Child();  // closes its input, and kills it if it does not end soon
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  void write_line(const std::string& line);
  // Returns a line without its end. Throws unavailable if the child has ended, deadline_exceeded.
  std::string read_line(std::chrono::seconds deadline = std::chrono::seconds(120));

 private:
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
  std::string buffered_;
};

// The cluster file on one line, for a child that joins the cluster.
std::string in_one_line(const ClusterSpec& cluster);

// The path of this program.
std::string own_path();
// This program's build directory, from which its scripts and libraries are found.
std::string build_directory();

}  // namespace troupe::bench
