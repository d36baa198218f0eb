// What a parameter shard saves, and what it begins with when its job goes on from a checkpoint.
#pragma once

#include <map>
#include <string>

#include <troupe/actors/checkpoint/reader.hpp>
#include <troupe/actors/checkpoint/writer.hpp>
#include <troupe/actors/training/parameter_store.hpp>
#include <troupe/graph/passes/shard_map.hpp>
#include <troupe/scheduler/training/shard_state.hpp>

namespace troupe {

// Updates so far that were none (UpdateRule::guarded): the same number on each shard that has a variable with such
// updates.
SavedTensor skipped_state(std::int64_t skipped);
std::int64_t skipped_in(Checkpoint& from);

// What a shard knows of the gradients that it has taken.
std::string dedupe_of(const ShardState::Cut& cut);

// A variable or slot of the checkpoint, whole. Throws data_loss, and failed_precondition if it is not as the job has
// it.
Tensor read_checked(Checkpoint& from, const std::string& name, DType dtype, const Shape& shape);

// Handles of the values and optimizer slots of a shard, between two updates. `position`: of the shard among the
// `shards` that own anything.
ShardContents contents_of(ParameterStore& store, const ShardMap& map, const std::map<std::string, UpdateRule>& rules,
                          int shard, std::uint32_t position, std::uint32_t shards, const ShardState::Cut& cut);

// Fills the store of a shard, however the variables were cut when they were saved. Throws data_loss, and
// failed_precondition if the checkpoint's variables are not those of the job.
void restore(Checkpoint& from, ParameterStore& store, const ShardMap& map,
             const std::map<std::string, UpdateRule>& rules, int shard);

// What a shard of an asynchronous job knows beside its values. Throws failed_precondition if there were not as many
// shards.
ShardState::Cut restored_cut(const Checkpoint& from, std::uint32_t position, std::uint32_t shards);

}  // namespace troupe
