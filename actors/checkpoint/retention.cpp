// Which checkpoints stay.
#include <algorithm>

#include <troupe/actors/checkpoint/reader.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

// The manifest first, and for good: what remains is no checkpoint, however far the rest comes.
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

// Damage is no reason to keep one; anything else (no permission, no descriptor left) is no reason to remove any.
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
  if (keep < 1) invalid_argument("of the checkpoints in '{}' at least one is kept, not {}", directory, keep);
  const std::vector<ListedCheckpoint> listed = list_checkpoints(files, directory);
  bool whole = false;  // one was found
  for (auto at = listed.rbegin(); at != listed.rend(); ++at) {
    if (whole && (keep <= 0 || !at->committed)) {
      remove_checkpoint(files, directory, *at);
      continue;
    }
    if (!at->committed) continue;  // may be under way
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
