// Saves and restores a parameter shard.
#pragma once

#include <map>
#include <string>

#include <troupe/actors/checkpoint/reader.hpp>
#include <troupe/actors/checkpoint/writer.hpp>
#include <troupe/actors/training/parameter_store.hpp>
#include <troupe/graph/passes/shard_map.hpp>
#include <troupe/scheduler/training/shard_state.hpp>

namespace troupe {

// The number of skipped updates (UpdateRule::guarded). Equal on all shards that have a variable with such updates.
SavedTensor skipped_state(std::int64_t skipped);
std::int64_t skipped_in(Checkpoint& from);

// The value of a variable that training would end with (EpochDecision::keep), and its name, "dense/kernel/kept".
std::string kept_name(const std::string& variable);
SavedTensor kept_value(const std::string& variable, Tensor value);

// The version of a shard and the batches it has applied, as text for ShardManifest::dedupe.
std::string dedupe_of(const ShardState::Cut& cut);

// Reads a whole variable or slot. Throws data_loss, and failed_precondition if it is missing or its dtype or shape
// differs.
Tensor read_checked(Checkpoint& from, const std::string& name, DType dtype, const Shape& shape);

// Handles of a shard's values and optimizer slots, taken between two updates. `position`: of the shard among the
// `shards` that own anything.
ShardContents contents_of(ParameterStore& store, const ShardMap& map, const std::map<std::string, UpdateRule>& rules,
                          int shard, std::uint32_t position, std::uint32_t shards, const ShardState::Cut& cut);

// Fills a shard's store, however the variables were sharded when saved; `draws`: by variable on demand. Throws
// data_loss, and failed_precondition if the checkpoint's variables are not those of the job.
void restore(Checkpoint& from, ParameterStore& store, const ShardMap& map,
             const std::map<std::string, UpdateRule>& rules, const std::map<std::string, std::vector<RowDraws>>& draws,
             int shard);

// Parses the dedupe text of a shard of an asynchronous job. Throws data_loss, and failed_precondition if the checkpoint
// has another number of shards.
ShardState::Cut restored_cut(const Checkpoint& from, std::uint32_t position, std::uint32_t shards);

}  // namespace troupe
