// A program under test, with what it has printed so far.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace troupe::testing {

class Process {
 public:
  // command[0] is a path. Standard input is empty; stdout and stderr are pipes.
  explicit Process(std::vector<std::string> command);
  ~Process();  // kills it if it still runs
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Reads until stderr or stdout has `text` that many times. Fails the test if the output ends first.
  void wait_for(const std::string& text, int times = 1);
  void signal(int number);
  // Reads all output; then the exit code, or minus the number of the signal that ended it.
  int wait();

  std::string out, err;

 private:
  bool read_more();

  pid_t pid_ = -1;
  int out_fd_ = -1, err_fd_ = -1;
  bool reaped_ = false;
};

// A directory of its own that goes away with the object.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  std::filesystem::path path() const { return path_; }
  // Writes a file that only its owner may read; returns its path.
  std::string write(const std::string& name, const std::string& content) const;

 private:
  std::filesystem::path path_;
};

// Ports of 127.0.0.1 that nobody used a moment ago, all different.
std::vector<int> free_ports(int count);

}  // namespace troupe::testing
