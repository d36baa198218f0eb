// The cluster file: who belongs to the job, and the token that proves it (ARCHITECTURE.md, Command lines).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace troupe {

struct ClusterDescription {
  std::string name;
  std::string token;
  std::vector<std::string> ps;      // HOST:PORT, in the order of the task indices
  std::vector<std::string> worker;  // likewise
};

// 32 random bytes from the kernel, in hexadecimal.
std::string random_token();

// A cluster file that only this user can read, in a new directory of its own. Both go with the object.
class ClusterFile {
 public:
  // Throws Error (unavailable) if it cannot be written.
  explicit ClusterFile(const ClusterDescription& cluster);
  ClusterFile(const ClusterFile&) = delete;
  ClusterFile& operator=(const ClusterFile&) = delete;
  ~ClusterFile();

  std::string path() const { return (directory_ / "cluster.json").string(); }

 private:
  std::filesystem::path directory_;
};

}  // namespace troupe
