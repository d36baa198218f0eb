// Child processes of troupe-launch: each leads its own process group and dies with the launcher.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

// Owns a file descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor();
  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

struct ChildOptions {
  std::vector<std::string> command;  // the program, searched in PATH if it has no slash, and its arguments
  bool inherit_stdout = false;       // else a pipe
  int tasks = 1;                     // number of tasks started, passed to each
  std::string cluster_file;          // for a restarted task
  std::optional<std::string> gpus;   // CUDA_VISIBLE_DEVICES; none: the launcher's
};

// The launcher's ends of the pipes do not block.
struct Child {
  pid_t pid = -1;
  FileDescriptor report;   // read end of the task's report
  FileDescriptor cluster;  // write end for the path of the cluster file
  FileDescriptor out;      // its standard output, unless inherited
  FileDescriptor err;      // its standard error
};

// Starts a process with the pipes of the handshake (actors/cluster/launch_handshake.hpp). Its standard input is empty.
// Throws Error: not_found or permission_denied if the program cannot be executed, resource_exhausted without
// descriptors or memory.
Child start_child(const ChildOptions& options);

// Makes this process adopt orphaned descendants, so that kill_descendants finds them.
void adopt_orphans();

// Kills and reaps all descendants of this process.
void kill_descendants();

}  // namespace troupe
