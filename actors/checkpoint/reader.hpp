// Reading checkpoints. Nothing that a file says is believed: sizes are checked before anything is allocated, and each
// tensor against its checksum when it is read. What is damaged is refused with data_loss, and the error names the file
// and the tensor.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include <troupe/actors/checkpoint/manifest.hpp>
#include <troupe/devices/storage/file_system.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

struct ListedCheckpoint {
  std::uint64_t version = 0;
  std::string folder;
  bool committed = false;  // has a manifest
};

// By version; none if the directory does not exist.
std::vector<ListedCheckpoint> list_checkpoints(FileSystem& files, const std::string& directory);

// One that was opened: its manifest is good, and all its files are there in the right size. Their content is checked
// when it is read. Used by one thread at a time. The FileSystem outlives it.
class Checkpoint {
 public:
  // By open_checkpoint(). `variables`: check(manifest).
  Checkpoint(FileSystem& files, std::string folder, CheckpointManifest manifest, StoredVariables variables);

  const std::string& folder() const { return folder_; }
  const CheckpointManifest& manifest() const { return manifest_; }
  // All variables and slots, by name.
  const StoredVariables& variables() const { return variables_; }
  const StoredVariable& variable(std::string_view name) const;  // throws not_found

  // Rows [begin, end) of a variable or slot, however it was cut when it was saved; of a scalar [0, 1). Throws
  // not_found, and out_of_range for rows that it does not have. Reads whole the parts that have some of them.
  Tensor read_rows(std::string_view name, std::int64_t begin, std::int64_t end);
  Tensor read(std::string_view name);  // all rows
  // A tensor of TensorKind::state. Throws not_found.
  Tensor read_state(std::uint32_t shard, std::string_view name);

  // Reads everything, and throws for what is damaged; also for bytes between tensors that are not zero.
  void verify();

 private:
  Tensor read_entry(std::uint32_t shard, const TensorEntry& entry);
  void verify_shard(std::uint32_t shard);
  std::string path(std::uint32_t shard) const { return join_path(folder_, manifest_.shards[shard].file); }

  std::string folder_;
  CheckpointManifest manifest_;
  StoredVariables variables_;
  std::vector<std::unique_ptr<ReadableFile>> shards_;
};

// Throws not_found if the folder has no manifest, data_loss if it is damaged, unimplemented if a later Troupe has
// written it.
Checkpoint open_checkpoint(FileSystem& files, const std::string& folder);

// Told of each checkpoint that is passed over, and why.
using CheckpointNote = std::function<void(const std::string& folder, const Error& reason)>;

// The newest one that can be read as it was saved, every byte of it (so this takes a while), or none. Only those that
// are damaged or were not committed are passed over; any other error (no permission, no descriptor left) is thrown: the
// checkpoint may be good.
std::optional<Checkpoint> newest_whole_checkpoint(FileSystem& files, const std::string& directory,
                                                  const CheckpointNote& note = nullptr);

// Removes checkpoints, but for the newest `keep` (at least 1) that can be opened, and never the newest whole one; and
// what saves have left that did not come to their end, if they are older than the newest whole one. `just_saved`: a
// version that is known to be whole, so that it need not be read again. Of a checkpoint the manifest goes first, so
// that a crash leaves no half of one.
void remove_old_checkpoints(FileSystem& files, const std::string& directory, int keep,
                            std::optional<std::uint64_t> just_saved = std::nullopt);

}  // namespace troupe
