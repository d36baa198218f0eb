// The file system of this machine, with a fault at an operation that one chooses. Operations that change something or
// sync it are counted, from 1.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "tests/actors/checkpoint/forwarding_file_system.hpp"

namespace troupe::chaos {

struct DiskFaults {
  std::uint64_t kill_at = 0;    // this process is killed in the middle of that operation; 0: never
  std::string once;             // a file that is made then; where it is there already nobody is killed
  std::uint64_t full_from = 0;  // from this operation on the disk is full, for so many
  std::uint64_t full_for = 0;
};

// Thread-safe.
class FaultyFileSystem final : public testing::ForwardingFileSystem {
 public:
  FaultyFileSystem(FileSystem& files, DiskFaults faults) : ForwardingFileSystem(files), faults_(std::move(faults)) {}
  std::unique_ptr<WritableFile> create(const std::string& path) override;
  void rename(const std::string& from, const std::string& to) override;
  void remove(const std::string& file) override;
  void make_directory(const std::string& path) override;
  void remove_directory(const std::string& path) override;
  void sync_directory(const std::string& path) override;

  // Counts. True: this process is to be killed once half of it is done. Throws resource_exhausted if the disk is full.
  bool operation(const std::string& path, bool needs_space);
  [[noreturn]] void die() const;

 private:
  const DiskFaults faults_;
  std::atomic<std::uint64_t> operations_{0};
};

}  // namespace troupe::chaos
