// What a training job with parameter servers saves, and what it begins with when it goes on from a checkpoint.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "actors/checkpoint/reader.hpp"
#include "actors/checkpoint/writer.hpp"
#include "actors/training/parameter_store.hpp"
#include "graph/shard_map.hpp"
#include "scheduler/training/coordinator.hpp"

namespace troupe {

// Settings that a job need not share with the one whose checkpoint it takes: on how many tasks it runs.
std::string settings_to_keep(const std::string& settings);

// Handles of the values and optimizer slots of a shard, between two updates. `position`: of the shard among the `shards` that own
// anything.
ShardContents contents_of(ParameterStore& store, const ShardMap& map, const std::map<std::string, UpdateRule>& rules, int shard,
                          std::uint32_t position, std::uint32_t shards, const ShardState::Cut& cut);

// Fills the store of a shard, however the variables were cut when they were saved. Throws data_loss, and failed_precondition if the
// checkpoint's variables are not those of the job.
void restore(Checkpoint& from, ParameterStore& store, const ShardMap& map, const std::map<std::string, UpdateRule>& rules, int shard);

// What a shard of an asynchronous job knows beside its values. Throws failed_precondition if there were not as many shards.
ShardState::Cut restored_cut(const Checkpoint& from, std::uint32_t position, std::uint32_t shards);

// The newest whole one, if there is any; `note` is told of those that are passed over. Throws failed_precondition if it is of a job
// with other settings.
std::optional<Checkpoint> newest_of_job(FileSystem& files, const std::string& directory, const std::string& settings,
                                        const std::function<void(const std::string&)>& note);

// Where the job stands, as the coordinator knows it, in a checkpoint.
JobState state_in(const Checkpoint& from);

// The manifest of what all shards have saved. `attempt`: as they were told.
CheckpointManifest manifest_of(const SaveRound& round, const JobState& state, const JobOptions& job, std::uint64_t attempt);

}  // namespace troupe
