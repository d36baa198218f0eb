// A checkpoint is the state of a training job at one version (global step), stored as a folder:
//
//   DIR/checkpoint-<version, 12 digits>/
//     shard-<i>-of-<n>-<attempt>   the data owned by shard i: consecutive tensors, each aligned to 64 bytes
//     MANIFEST                     written last: the layout with a crc32c of each tensor, and the job's state
//
// A folder without MANIFEST is not a checkpoint. Two saves of one version, or a suspended writer that resumes after
// another has taken over, have different attempts and so different files: neither writes into files the other relies
// on.
//
// This header: the contents of a manifest and its encoding. The bytes are untrusted: decode_* validate all of them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/messages/dtype.hpp>
#include <troupe/messages/shape.hpp>

namespace troupe {

inline constexpr std::string_view kManifestName = "MANIFEST";
inline constexpr std::uint64_t kMaxManifestBytes = 32u << 20;
inline constexpr std::uint64_t kTensorAlignment = 64;

struct CheckpointId {
  std::uint64_t version = 0;
  std::uint64_t attempt = 0;  // differs from that of any other save of this version
  bool operator==(const CheckpointId&) const = default;
};

enum class TensorKind : std::uint8_t {
  variable = 1,  // rows of one; all shards together hold each row once
  slot = 2,      // the same for an optimizer slot of a variable
  state = 3,     // whole, private to this shard
};

// A tensor in a shard's file.
struct TensorEntry {
  std::string name;
  TensorKind kind = TensorKind::variable;
  std::string variable;  // of a slot: its variable
  DType dtype = DType::invalid;
  Shape shape;            // of the part; a scalar counts as one row
  std::int64_t rows = 1;  // of the whole tensor; this part has row_begin, row_begin + stride, ... below row_end
  std::int64_t row_begin = 0;
  std::int64_t row_end = 1;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;  // strings: packed (messages/packed_strings.hpp)
  std::uint32_t crc32c = 0;
  std::int64_t stride = 1;
  // Some rows of a variable or slot. Their numbers are a state of the shard; rows that no shard has were never changed.
  bool listed = false;
  bool operator==(const TensorEntry&) const = default;
};

struct ShardManifest {
  std::uint32_t shard = 0;
  std::string file;  // file name within the folder
  std::uint64_t bytes = 0;
  std::vector<TensorEntry> tensors;  // in file order
  std::string dedupe;                // gradients already applied; opaque, private to the shard
  bool operator==(const ShardManifest&) const = default;
};

// The progress of the job.
struct CheckpointJob {
  std::string mode;  // "sync", "async", ...
  std::uint32_t slots = 1;
  std::uint64_t batch = 0;  // examples per slot
  std::uint64_t seed = 0;
  std::uint64_t staleness = 0;
  std::uint32_t epochs = 0;
  std::uint32_t epoch = 0;            // current, from 0
  std::uint64_t steps_per_epoch = 0;  // 0: unknown
  std::uint64_t cursor = 0;           // consecutive complete tokens from the start of the epoch
  std::uint64_t examples = 0;         // of those tokens
  std::uint64_t training_ns = 0;      // so far
  std::string extra;                  // opaque, private to the coordinator
  bool operator==(const CheckpointJob&) const = default;
};

struct CheckpointManifest {
  CheckpointId id;
  std::string settings;  // of the job, as text
  std::uint64_t fingerprint = 0;
  CheckpointJob job;
  std::vector<ShardManifest> shards;  // by number
  bool operator==(const CheckpointManifest&) const = default;
};

// A variable or slot, assembled from the parts on all shards.
struct StoredVariable {
  struct Part {
    std::uint32_t shard = 0;
    std::size_t tensor = 0;  // index in the shard's tensors
  };
  TensorKind kind = TensorKind::variable;
  std::string variable;
  DType dtype = DType::invalid;
  Shape shape;  // of the whole
  std::int64_t rows = 1;
  std::vector<Part> parts;  // by row; listed: by shard
  bool listed = false;
};

using StoredVariables = std::map<std::string, StoredVariable, std::less<>>;

// Throws data_loss if the manifest is inconsistent: shards not numbered 0 ..., tensors not laid out as by the writer,
// sizes that do not match shapes or overflow, names that are not plain file names, missing or duplicate rows of a
// variable.
StoredVariables check(const CheckpointManifest& manifest);

// A shard's report to its coordinator. Decoding throws data_loss.
std::string encode(const ShardManifest& manifest);
ShardManifest decode_shard_manifest(std::string_view bytes);

// The content of a MANIFEST: "TRPCHKPT", format (u32), crc32c (u32) of all other bytes, length of the rest (u64), and
// the rest: a proto::CheckpointManifest. Encoding throws resource_exhausted above kMaxManifestBytes; decoding throws
// data_loss, and unimplemented for a format written by a later Troupe. decode_manifest() does not call check().
std::string encode_manifest(const CheckpointManifest& manifest);
CheckpointManifest decode_manifest(std::string_view bytes);

std::string checkpoint_folder(std::string_view directory, std::uint64_t version);
std::string shard_file_name(std::uint32_t shard, std::uint32_t shards, std::uint64_t attempt);

// The offset of the next tensor after `bytes` bytes; the bytes between are zero.
constexpr std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

std::string_view name(TensorKind kind);  // "variable", "slot", "state"

}  // namespace troupe
