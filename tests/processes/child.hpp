// A child process that cannot outlive the program that has started it: its standard input is empty, its standard output
// and error are pipes. Start children on a thread that lives as long as they are to: they die with it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace troupe::testing {

// Sends it SIGSTOP, and waits until all its threads have stopped: on a busy machine they go on for a while.
void stop_process(pid_t pid);

class Child {
 public:
  // command[0] is a path. Throws resource_exhausted without descriptors or processes. A program that cannot be executed
  // ends with 127.
  explicit Child(std::vector<std::string> command);
  ~Child();  // kills it if it still runs
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;  // nothing once it has been waited for

  // For poll(); -1 when all has been read.
  int out_fd() const { return out_fd_; }
  int err_fd() const { return err_fd_; }
  // Appends what can be read; blocks if nothing can yet.
  void read_out(std::string& into) { read(out_fd_, into); }
  void read_err(std::string& into) { read(err_fd_, into); }

  // The exit code, or minus the number of the signal that ended it; none while it runs.
  std::optional<int> ended();
  int wait();

 private:
  static void read(int& fd, std::string& into);
  std::optional<int> reap(int options);

  pid_t pid_ = -1;
  int out_fd_ = -1, err_fd_ = -1;
  std::optional<int> status_;
};

}  // namespace troupe::testing
