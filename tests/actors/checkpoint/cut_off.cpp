#include "tests/actors/checkpoint/cut_off.hpp"

#include "tests/error_of.hpp"

namespace troupe::testing {

void save(FileSystem& files, const CheckpointId& id, const Example& state, bool& done) {
  state.save(files, kCutOffDirectory, id, kCutOffShards);
  done = true;
  remove_old_checkpoints(files, kCutOffDirectory, 1, id.version);
}

std::vector<Disk> disks() {
  std::vector<Disk> out = {
      {Survives::nothing, 0}, {Survives::names, 0}, {Survives::content, 0}, {Survives::everything, 0}};
  for (std::uint64_t seed = 0; seed < 20; ++seed) out.push_back({Survives::some, seed});
  return out;
}

CutOff cut_off_everywhere(const MemoryFileSystem& before, const CheckpointId& old_id, const Example& old_state,
                          const CheckpointId& new_id, const Example& new_state, bool sync_files,
                          bool sync_directories) {
  CutOff outcome;
  for (bool complete = false; !complete; ++outcome.points) {
    MemoryFileSystem files = before.copy();
    files.sync_files = sync_files;
    files.sync_directories = sync_directories;
    files.crash_at = outcome.points;
    bool done = false;
    complete = !error_of([&] { save(files, new_id, new_state, done); });
    for (const Disk& disk : disks()) {
      MemoryFileSystem after = files.after_crash(disk.survives, disk.seed);
      const std::string where =
          fmt::format("operation {}, disk {}/{}", outcome.points, static_cast<int>(disk.survives), disk.seed);
      auto found = newest_whole_checkpoint(after, kCutOffDirectory);
      const bool is_old = found && found->manifest().id == old_id && old_state.difference(*found).empty();
      const bool is_new = found && found->manifest().id == new_id && new_state.difference(*found).empty();
      ++(is_new ? outcome.new_found : outcome.old_found);
      if (!is_new && (!is_old || done)) {
        outcome.broken.push_back(where + (is_old ? ": the new one was lost" : ": none is whole"));
        continue;
      }
      // Who starts again saves over whatever was left, the same version first.
      const Example next(77);
      for (const std::uint64_t version : {new_id.version, new_id.version + 1}) {
        const CheckpointId id{version, 99};
        bool saved = false;
        if (const Error error = error_of([&] { save(after, id, next, saved); })) {
          outcome.broken.push_back(where + ": the next save: " + error.to_string());
          break;
        }
        found = newest_whole_checkpoint(after, kCutOffDirectory);
        if (!found || found->manifest().id != id || !next.difference(*found).empty())
          outcome.broken.push_back(where + ": the next save is not found");
      }
      if (after.list(kCutOffDirectory).size() != 1) outcome.broken.push_back(where + ": something is left");
    }
  }
  return outcome;
}

}  // namespace troupe::testing
