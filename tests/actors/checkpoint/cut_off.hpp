// A save that is cut off at every operation, on a disk that then has lost what was not synced, or kept it, or any part
// of it.
#pragma once

#include <string>
#include <vector>

#include "tests/actors/checkpoint/example.hpp"
#include "tests/actors/checkpoint/memory_file_system.hpp"

namespace troupe::testing {

inline constexpr std::uint32_t kCutOffShards = 3;
inline const std::string kCutOffDirectory = "/saves";

// What a job does: saves into kCutOffDirectory, then removes what is too old. `done`: the save has said so.
void save(FileSystem& files, const CheckpointId& id, const Example& state, bool& done);

struct Disk {
  Survives survives;
  std::uint64_t seed;
};
std::vector<Disk> disks();

struct CutOff {
  std::uint64_t points = 0;  // at which the save was cut off
  std::uint64_t old_found = 0, new_found = 0;
  std::vector<std::string> broken;  // promises
};

// `before`: of the disk, as the old checkpoint was saved on it.
CutOff cut_off_everywhere(const MemoryFileSystem& before, const CheckpointId& old_id, const Example& old_state,
                          const CheckpointId& new_id, const Example& new_state, bool sync_files, bool sync_directories);

}  // namespace troupe::testing
