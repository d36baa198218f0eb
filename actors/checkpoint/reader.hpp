// Reads checkpoints. Files are untrusted: sizes are checked before allocation, and each tensor's checksum when it is
// read. Damage throws data_loss, naming the file and the tensor.
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

// The checkpoints in a directory, by version; none if it does not exist.
std::vector<ListedCheckpoint> list_checkpoints(FileSystem& files, const std::string& directory);

// An opened checkpoint: its manifest is valid and all its files are present with the right size. Their content is
// checked on reading. Used by one thread at a time. The FileSystem outlives it.
class Checkpoint {
 public:
  // Called by open_checkpoint(). `variables`: check(manifest).
  Checkpoint(FileSystem& files, std::string folder, CheckpointManifest manifest, StoredVariables variables);

  const std::string& folder() const { return folder_; }
  const CheckpointManifest& manifest() const { return manifest_; }
  // All variables and slots, by name.
  const StoredVariables& variables() const { return variables_; }
  const StoredVariable& variable(std::string_view name) const;  // throws not_found

  // Rows begin, begin + stride, ... below end of a variable or slot, regardless of how it was sharded when saved; [0,
  // 1) for a scalar. Throws not_found, and out_of_range for rows it does not have. Reads every part that overlaps the
  // range in full.
  Tensor read_rows(std::string_view name, std::int64_t begin, std::int64_t end, std::int64_t stride = 1);
  Tensor read(std::string_view name);  // all rows
  // The listed rows of a variable or slot that this shard saved. Throws not_found.
  Tensor read_listed(std::string_view name, std::uint32_t shard);
  // A tensor of TensorKind::state. Throws not_found.
  Tensor read_state(std::uint32_t shard, std::string_view name);

  // Reads everything and throws for damage, including nonzero bytes between tensors.
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

// Throws not_found if the folder has no manifest, data_loss if it is damaged, unimplemented if written by a later
// Troupe.
Checkpoint open_checkpoint(FileSystem& files, const std::string& folder);

// Called for each skipped checkpoint, with the reason.
using CheckpointNote = std::function<void(const std::string& folder, const Error& reason)>;

// The newest intact checkpoint, every byte verified (so this takes a while), or none. Skips only damaged and
// uncommitted ones; any other error (no permission, no free descriptor) is thrown: the checkpoint may be good.
std::optional<Checkpoint> newest_whole_checkpoint(FileSystem& files, const std::string& directory,
                                                  const CheckpointNote& note = nullptr);

// Removes all checkpoints but the newest `keep` (at least 1) that can be opened, never the newest intact one; also
// removes leftovers of incomplete saves older than the newest intact one. `just_saved`: a version known to be intact,
// which is not read again. A checkpoint's manifest is removed first, so that a crash leaves no partial checkpoint.
void remove_old_checkpoints(FileSystem& files, const std::string& directory, int keep,
                            std::optional<std::uint64_t> just_saved = std::nullopt);

}  // namespace troupe
