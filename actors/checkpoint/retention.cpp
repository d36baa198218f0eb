// Removes old checkpoints.
#include <algorithm>

#include <troupe/actors/checkpoint/reader.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

// Removes the manifest first, durably: the rest is then not a checkpoint, however much of it is removed.
void remove_checkpoint(FileSystem& files, const std::string& directory, const ListedCheckpoint& checkpoint) {
  const std::string& folder = checkpoint.folder;
  if (checkpoint.committed) {
    files.remove(join_path(folder, kManifestName));
    files.sync_directory(folder);
  }
  for (const DirectoryEntry& entry : files.list(folder))
    if (!entry.is_directory) files.remove(join_path(folder, entry.name));
  files.remove_directory(folder);
  files.sync_directory(directory);
}

// A damaged checkpoint is removed; any other error (no permission, no free descriptor) removes nothing.
template <class Read>
bool undamaged(Read&& read) {
  try {
    read();
    return true;
  } catch (const Error& error) {
    if (error.code() != Code::data_loss) throw;
    return false;
  }
}

}  // namespace

void remove_old_checkpoints(FileSystem& files, const std::string& directory, int keep,
                            std::optional<std::uint64_t> just_saved) {
  if (keep < 1) invalid_argument("at least one checkpoint in '{}' must be kept, not {}", directory, keep);
  const std::vector<ListedCheckpoint> listed = list_checkpoints(files, directory);
  bool whole = false;  // an intact one was found
  for (auto at = listed.rbegin(); at != listed.rend(); ++at) {
    if (whole && (keep <= 0 || !at->committed)) {
      remove_checkpoint(files, directory, *at);
      continue;
    }
    if (!at->committed) continue;  // may be in progress
    std::optional<Checkpoint> opened;
    if (!undamaged([&] { opened = open_checkpoint(files, at->folder); })) {
      if (whole) remove_checkpoint(files, directory, *at);
      continue;
    }
    --keep;
    whole = whole || just_saved == at->version || undamaged([&] { opened->verify(); });
  }
}

}  // namespace troupe
