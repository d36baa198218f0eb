// Saving a checkpoint. Each shard writes its file, and tells the coordinator what is in it; when all have, the
// coordinator commits. Until commit_checkpoint() returns, what was the newest checkpoint still is, or the new one is
// whole; after that the new one survives a crash of the machine.
//
//   shard         write_shard() ── ShardManifest ──┐   file made, written, synced; folder synced
//   shard         write_shard() ── ShardManifest ──┤
//   coordinator   commit_checkpoint() ◀────────────┘   MANIFEST.tmp written, synced, renamed; folder and DIR synced
//
// All that take part must see the same DIR. Errors are those of FileSystem. A save that failed leaves files that no
// manifest names, or none; they harm nothing, and remove_old_checkpoints() takes them away.
#pragma once

#include <functional>

#include <troupe/actors/checkpoint/manifest.hpp>
#include <troupe/devices/storage/file_system.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// A tensor to be saved, in host memory. Nobody may write to its memory until it is (ParameterStore copies on write).
struct SavedTensor {
  std::string name;
  TensorKind kind = TensorKind::variable;
  std::string variable;  // of a slot
  // Of the rows of the whole, which of them `value` is. rows -1: it is the whole.
  std::int64_t rows = -1;
  std::int64_t row_begin = 0;
  Tensor value;
};

struct ShardContents {
  std::uint32_t shard = 0;
  std::uint32_t shards = 1;
  std::vector<SavedTensor> tensors;
  std::string dedupe;  // as ShardManifest::dedupe
};

// Bytes of tensors written, of all of the shard. What it throws ends the save.
using SaveProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

// Writes the shard's file, making DIR and the checkpoint's folder if need be, and lets go of each tensor when it is
// written. Blocks: for a thread that has nothing else to do. Throws invalid_argument for a tensor that is not on the
// host or whose rows do not fit.
ShardManifest write_shard(FileSystem& files, const std::string& directory, const CheckpointId& id,
                          ShardContents contents, const SaveProgress& progress = nullptr);

// Makes the files of all shards a checkpoint. Throws data_loss, before anything is changed, if the manifest contradicts
// itself (check()) or a file is not here in the size that its shard has said. A checkpoint of the same version is
// replaced at once.
void commit_checkpoint(FileSystem& files, const std::string& directory, const CheckpointManifest& manifest);

}  // namespace troupe
