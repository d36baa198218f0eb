// The cluster file: who belongs to the job, and the token that proves it (docs/reference/cluster-file.md).
#pragma once

#include <string>
#include <vector>

#include "tools/launch/process.hpp"

namespace troupe {

struct ClusterDescription {
  std::string name;
  std::string token;
  std::vector<std::string> ps;      // HOST:PORT, in the order of the task indices
  std::vector<std::string> worker;  // likewise
  int max_workers = 0;              // with those that may join later; 0: none may
};

// 32 random bytes from the kernel, in hexadecimal.
std::string random_token();

// A cluster file in memory, that only this user can read. It goes with the process, however that ends.
class ClusterFile {
 public:
  // Throws Error (unavailable) if it cannot be written.
  explicit ClusterFile(const ClusterDescription& cluster);

  std::string path() const;

 private:
  FileDescriptor file_;
};

}  // namespace troupe
