// The cluster file: the members of the job, and the token that authenticates them (docs/reference/cluster-file.md).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/launch/process.hpp"

namespace troupe {

struct ClusterDescription {
  std::string name;
  std::string token;
  std::map<std::string, std::vector<std::string>> jobs;  // HOST:PORT, in the order of the task indices
  int max_workers = 0;  // including those that may join later; 0: nobody may join later
};

// Returns 32 random bytes from the kernel, in hexadecimal.
std::string random_token();

// A cluster file in memory that only this user can read. It disappears when the process ends, however it ends.
class ClusterFile {
 public:
  // Throws Error (unavailable) if it cannot be written.
  explicit ClusterFile(const ClusterDescription& cluster);

  std::string path() const;

 private:
  FileDescriptor file_;
};

}  // namespace troupe
