#include "tests/actors/checkpoint/example.hpp"

#include <fmt/core.h>

namespace troupe::testing {
namespace {

Tensor floats(const Shape& shape, std::uint64_t seed) {
  Tensor tensor(DType::f32, shape);
  float value = static_cast<float>(seed) + 0.25f;
  for (float& element : tensor.mutable_values<float>()) element = value += 1;
  return tensor;
}

std::string dedupe_of(std::uint64_t seed, std::uint32_t shard) { return fmt::format("{}{}{}", '\0', seed, shard); }

}  // namespace

Example::Example(std::uint64_t seed) : seed_(seed) {
  const auto number = static_cast<std::int64_t>(seed);
  variables_ = {{"dense/kernel", floats({10, 3}, seed)},
                {"dense/kernel/m", floats({10, 3}, seed + 100)},
                {"dense/bias", floats({5}, seed + 200)},
                {"empty", Tensor(DType::f32, Shape{0, 4})},
                {"flags", Tensor::vector<bool>({true, seed % 2 == 0, true})},
                {"scale", Tensor::scalar<double>(static_cast<double>(seed) / 3)},
                {"counts", Tensor::of<std::int64_t>({2, 2}, {number, -1, number, 1})},
                {"labels", Tensor::vector<std::string>({"seed", fmt::format("{}", seed), ""})}};
}

Tensor Example::state(std::uint32_t shard) const {
  return Tensor::vector<std::int64_t>({static_cast<std::int64_t>(seed_), static_cast<std::int64_t>(shard)});
}

ShardContents Example::contents(std::uint32_t shard, std::uint32_t shards) const {
  ShardContents out{shard, shards, {}, dedupe_of(seed_, shard)};
  std::uint32_t owner = 0;
  for (const auto& [name, value] : variables_) {
    const bool slot = name.ends_with("/m");
    const TensorKind kind = slot ? TensorKind::slot : TensorKind::variable;
    const std::string variable = slot ? name.substr(0, name.size() - 2) : "";
    if (name.starts_with("dense/kernel")) {
      const std::int64_t rows = value.shape()[0], begin = rows * shard / shards, end = rows * (shard + 1) / shards;
      out.tensors.push_back({name, kind, variable, rows, begin, value.rows(begin, end)});
    } else if (owner++ % shards == shard) {
      out.tensors.push_back({name, kind, variable, -1, 0, value});
    }
  }
  out.tensors.push_back({"seen", TensorKind::state, "", -1, 0, state(shard)});
  return out;
}

CheckpointManifest Example::manifest(const CheckpointId& id, std::vector<ShardManifest> shards) const {
  CheckpointJob job{
      .mode = "sync", .slots = 4, .batch = 32, .seed = seed_, .epochs = 5, .epoch = 1, .steps_per_epoch = 93};
  job.cursor = seed_ * 4;
  job.examples = seed_ / 7;
  job.extra = fmt::format("{}\xff", seed_);
  return {id, fmt::format("model mlp, seed {}", seed_), seed_ * 17, job, std::move(shards)};
}

void Example::save(FileSystem& files, const std::string& directory, const CheckpointId& id,
                   std::uint32_t shards) const {
  std::vector<ShardManifest> written;
  for (std::uint32_t shard = 0; shard < shards; ++shard)
    written.push_back(write_shard(files, directory, id, contents(shard, shards)));
  commit_checkpoint(files, directory, manifest(id, std::move(written)));
}

std::string Example::difference(Checkpoint& checkpoint) const {
  const CheckpointManifest& found = checkpoint.manifest();
  if (found != manifest(found.id, found.shards)) return "the job's state";
  for (const auto& [name, value] : variables_)
    if (!bitwise_equal(checkpoint.read(name), value)) return name;
  for (const ShardManifest& shard : found.shards) {
    if (shard.dedupe != dedupe_of(seed_, shard.shard)) return "dedupe";
    if (!bitwise_equal(checkpoint.read_state(shard.shard, "seen"), state(shard.shard))) return "seen";
  }
  return checkpoint.variables().size() == variables_.size() ? "" : "the number of variables";
}

}  // namespace troupe::testing
