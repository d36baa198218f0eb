// A small state of a job to save and to find again: variables cut over shards, slots, states, of several types.
#pragma once

#include <map>
#include <string>

#include <troupe/actors/checkpoint/reader.hpp>
#include <troupe/actors/checkpoint/writer.hpp>

namespace troupe::testing {

class Example {
 public:
  // Every value depends on the seed.
  explicit Example(std::uint64_t seed);

  const std::map<std::string, Tensor>& variables() const { return variables_; }
  ShardContents contents(std::uint32_t shard, std::uint32_t shards) const;
  CheckpointManifest manifest(const CheckpointId& id, std::vector<ShardManifest> shards) const;
  // By all shards, and committed.
  void save(FileSystem& files, const std::string& directory, const CheckpointId& id, std::uint32_t shards) const;
  // "" if the checkpoint has this state, else what differs.
  std::string difference(Checkpoint& checkpoint) const;

 private:
  Tensor state(std::uint32_t shard) const;

  std::uint64_t seed_;
  std::map<std::string, Tensor> variables_;
};

}  // namespace troupe::testing
