// Saves checkpoints. Each shard writes its file and reports the contents to the coordinator; when all have reported,
// the coordinator commits. Until commit_checkpoint() returns, the newest checkpoint is the previous one, or the new one
// in full; after that the new one survives a crash of the machine.
//
//   shard         write_shard() ── ShardManifest ──┐   file made, written, synced; folder synced
//   shard         write_shard() ── ShardManifest ──┤
//   coordinator   commit_checkpoint() ◀────────────┘   MANIFEST.tmp written, synced, renamed; folder and DIR synced
//
// All participants must see the same DIR. Errors are those of FileSystem. A failed save leaves files that no manifest
// names, or none; they are harmless, and remove_old_checkpoints() removes them.
#pragma once

#include <functional>

#include <troupe/actors/checkpoint/manifest.hpp>
#include <troupe/devices/storage/file_system.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// A tensor to be saved, in host memory, which nobody may modify until it is saved (ParameterStore copies on write).
struct SavedTensor {
  std::string name;
  TensorKind kind = TensorKind::variable;
  std::string variable;  // of a slot
  // Rows of the whole tensor, and those that `value` holds: from row_begin on, every stride-th. rows -1: `value` is the
  // whole.
  std::int64_t rows = -1;
  std::int64_t row_begin = 0;
  Tensor value;
  std::int64_t stride = 1;
  bool listed = false;  // `value` has some rows, whose numbers are a state
};

struct ShardContents {
  std::uint32_t shard = 0;
  std::uint32_t shards = 1;
  std::vector<SavedTensor> tensors;
  std::string dedupe;  // as ShardManifest::dedupe
};

// Bytes of tensors written, out of the shard's total. An exception from it aborts the save.
using SaveProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

// Writes the shard's file, creating DIR and the checkpoint's folder if needed, and releases each tensor once written.
// Blocks: call it on a dedicated thread. Throws invalid_argument for a tensor that is not on the host or whose rows do
// not fit.
ShardManifest write_shard(FileSystem& files, const std::string& directory, const CheckpointId& id,
                          ShardContents contents, const SaveProgress& progress = nullptr);

// Commits the files of all shards as a checkpoint. Throws data_loss, before changing anything, if the manifest is
// inconsistent (check()) or a file is missing or differs in size from its shard's report. Atomically replaces a
// checkpoint of the same version.
void commit_checkpoint(FileSystem& files, const std::string& directory, const CheckpointManifest& manifest);

}  // namespace troupe
