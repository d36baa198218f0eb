// Child processes of troupe-launch: each leads a process group of its own, and dies if the launcher dies.
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
  int tasks = 1;                     // that the launcher starts, told to each
  std::string cluster_file;          // of a task that is started again
  std::optional<std::string> gpus;   // CUDA_VISIBLE_DEVICES; none: the launcher's
};

// The launcher's ends of the pipes do not block.
struct Child {
  pid_t pid = -1;
  FileDescriptor report;   // what the task reports
  FileDescriptor cluster;  // where the path of the cluster file goes
  FileDescriptor out;      // its standard output, unless inherited
  FileDescriptor err;      // its standard error
};

// Starts a process with the pipes of the handshake (actors/cluster/launch_handshake.hpp). Its standard input is empty.
// Throws Error: not_found or permission_denied if the program cannot be executed, resource_exhausted without
// descriptors or memory.
Child start_child(const ChildOptions& options);

// Orphans among the descendants of this process become its children, so that kill_descendants finds them.
void adopt_orphans();

// Kills and reaps every process that descends from this one.
void kill_descendants();

}  // namespace troupe
