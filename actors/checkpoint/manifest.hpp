// A checkpoint is the state of a training job at one version (global step): a folder
//
//   DIR/checkpoint-<version, 12 digits>/
//     shard-<i>-of-<n>-<attempt>   what shard i owns: tensors one behind the other, each at a multiple of 64 bytes
//     MANIFEST                     written last: what lies where, with a crc32c of each tensor, and the job's state
//
// A folder without MANIFEST is no checkpoint. Two saves of one version, or a writer that was stopped and goes on when
// another does its work, have different attempts and so different files: none writes into what another counts on.
//
// This header: what the manifest says, and its bytes. Those may come from anyone: decode_* check all of it.
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
  std::uint64_t attempt = 0;  // any number that no other save of this version has
  bool operator==(const CheckpointId&) const = default;
};

enum class TensorKind : std::uint8_t {
  variable = 1,  // rows of one; all shards together have each row once
  slot = 2,      // rows of what an optimizer keeps beside a variable: likewise
  state = 3,     // whole, of this shard alone
};

// A tensor in the file of a shard.
struct TensorEntry {
  std::string name;
  TensorKind kind = TensorKind::variable;
  std::string variable;  // of a slot: that of the variable it belongs to
  DType dtype = DType::invalid;
  Shape shape;            // of the part; a scalar counts as one row
  std::int64_t rows = 1;  // of the whole, of which these are [row_begin, row_end)
  std::int64_t row_begin = 0;
  std::int64_t row_end = 1;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;  // strings: packed (messages/packed_strings.hpp)
  std::uint32_t crc32c = 0;
  bool operator==(const TensorEntry&) const = default;
};

struct ShardManifest {
  std::uint32_t shard = 0;
  std::string file;  // its name in the folder
  std::uint64_t bytes = 0;
  std::vector<TensorEntry> tensors;  // as they lie in the file
  std::string dedupe;                // which gradients it has taken already; the shard's own business
  bool operator==(const ShardManifest&) const = default;
};

// Where the job stands.
struct CheckpointJob {
  std::string mode;  // "sync", "async", ...
  std::uint32_t slots = 1;
  std::uint64_t batch = 0;  // examples of a slot
  std::uint64_t seed = 0;
  std::uint64_t staleness = 0;
  std::uint32_t epochs = 0;
  std::uint32_t epoch = 0;  // under way, from 0
  std::uint64_t steps_per_epoch = 0;
  std::uint64_t cursor = 0;  // tokens of the epoch that are complete, from the first on
  double loss_sum = 0;       // the figures of those
  std::uint64_t correct = 0;
  std::uint64_t examples = 0;
  std::uint64_t training_ns = 0;  // of the job so far
  std::string extra;              // the coordinator's own business
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

// A variable or slot as the parts of all shards make it up.
struct StoredVariable {
  struct Part {
    std::uint32_t shard = 0;
    std::size_t tensor = 0;  // of the shard's
  };
  TensorKind kind = TensorKind::variable;
  std::string variable;
  DType dtype = DType::invalid;
  Shape shape;  // of the whole
  std::int64_t rows = 1;
  std::vector<Part> parts;  // by row
};

using StoredVariables = std::map<std::string, StoredVariable, std::less<>>;

// Throws data_loss if the manifest contradicts itself: shards not numbered 0 ..., tensors that do not lie as a writer
// lays them, sizes that do not fit shapes or overflow, names that are no plain file names, rows of a variable that no
// shard has, or two have.
StoredVariables check(const CheckpointManifest& manifest);

// What a shard tells its coordinator. Decoding throws data_loss.
std::string encode(const ShardManifest& manifest);
ShardManifest decode_shard_manifest(std::string_view bytes);

// The content of a MANIFEST: "TRPCHKPT", format (u32), crc32c (u32) of all but itself, bytes of the rest (u64), and the
// rest: a proto::CheckpointManifest. Encoding throws resource_exhausted above kMaxManifestBytes; decoding data_loss,
// and unimplemented for a format that a later Troupe has written. decode_manifest() does not check(): see there.
std::string encode_manifest(const CheckpointManifest& manifest);
CheckpointManifest decode_manifest(std::string_view bytes);

std::string checkpoint_folder(std::string_view directory, std::uint64_t version);
std::string shard_file_name(std::uint32_t shard, std::uint32_t shards, std::uint64_t attempt);

// The offset behind `bytes` bytes at which the next tensor lies; those between are zero.
constexpr std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

std::string_view name(TensorKind kind);  // "variable", "slot", "state"

}  // namespace troupe
