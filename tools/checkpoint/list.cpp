// troupe-checkpoint ls: lists the checkpoints of a directory, or the tensors of one checkpoint.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "tools/checkpoint/commands.hpp"
#include <troupe/actors/http/json_text.hpp>
#include <troupe/actors/model/saved_model.hpp>
#include <troupe/messages/bytes_text.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::checkpoints {
namespace {

struct Totals {
  std::size_t tensors = 0;
  std::uint64_t bytes = 0;
};

Totals totals(const CheckpointManifest& manifest) {
  Totals out;
  for (const ShardManifest& shard : manifest.shards) {
    out.tensors += shard.tensors.size();
    out.bytes += shard.bytes;
  }
  return out;
}

// Epochs are counted from 1 for users, as in troupe-mnist; `epochs` is 0 if unknown.
std::string epoch_text(const CheckpointJob& job) {
  if (job.epochs > 0 && job.epoch >= job.epochs) return fmt::format("all {} epochs done", job.epochs);
  return job.epochs > 0 ? fmt::format("epoch {} of {}", job.epoch + 1, job.epochs)
                        : fmt::format("epoch {}", job.epoch + 1);
}

void print_checkpoint(FileSystem& files, const ListedCheckpoint& listed, bool json) {
  nlohmann::json line = {{"event", "checkpoint"}, {"folder", listed.folder}, {"version", listed.version}};
  std::string text;
  try {
    const Checkpoint checkpoint = open_checkpoint(files, listed.folder);
    const CheckpointManifest& manifest = checkpoint.manifest();
    const auto [tensors, bytes] = totals(manifest);
    text = fmt::format("{} shards, {} tensors, {}; mode {}, {}, {} of its tokens done", manifest.shards.size(), tensors,
                       bytes_text(bytes), manifest.job.mode, epoch_text(manifest.job), manifest.job.cursor);
    line.update({{"state", "committed"},
                 {"shards", manifest.shards.size()},
                 {"tensors", tensors},
                 {"bytes", bytes},
                 {"mode", manifest.job.mode},
                 {"epoch", manifest.job.epoch + 1},
                 {"cursor", manifest.job.cursor}});
  } catch (const Error& error) {
    if (removed_meanwhile(files, listed)) return;
    const std::string_view state = listed.committed ? "damaged" : "incomplete";
    text = fmt::format("{}: {}", state, error.message());
    line.update({{"state", state}, {"error", error.message()}});
  }
  fmt::print("{}\n", json ? json_text(line) : fmt::format("{:>12}  {}", listed.version, text));
}

// The job's state from which training resumes: random numbers, micro-batches and gradients.
void print_job(const Checkpoint& checkpoint, bool json) {
  const CheckpointManifest& manifest = checkpoint.manifest();
  const CheckpointJob& job = manifest.job;
  const std::uint64_t first = job.epoch * job.steps_per_epoch;
  const bool done = job.epochs > 0 && job.epoch >= job.epochs;
  nlohmann::json line = {{"event", "job"},
                         {"version", manifest.id.version},
                         {"mode", job.mode},
                         {"slots", job.slots},
                         {"batch", job.batch},
                         {"seed", job.seed},
                         {"staleness", job.staleness},
                         {"epochs", job.epochs},
                         {"epoch", job.epoch + 1},
                         {"steps_per_epoch", job.steps_per_epoch},
                         {"cursor", job.cursor},
                         {"examples", job.examples},
                         {"seconds", static_cast<double>(job.training_ns) / 1e9},
                         {"settings", manifest.settings}};
  std::string text = fmt::format("mode {}, {} slots of {}, seed {}\nstep {}: {}{}; {:.2f} s of training\n", job.mode,
                                 job.slots, job.batch, job.seed, manifest.id.version, epoch_text(job),
                                 done ? ""
                                      : fmt::format(", {} of its {} steps, {} of its tokens done",
                                                    manifest.id.version >= first ? manifest.id.version - first : 0,
                                                    job.steps_per_epoch, job.cursor),
                                 static_cast<double>(job.training_ns) / 1e9);
  for (const ShardManifest& shard : manifest.shards) {
    line["dedupe"].push_back(shard.dedupe);
    text +=
        fmt::format("shard {}: {}, {}, dedupe '{}'\n", shard.shard, shard.file, bytes_text(shard.bytes), shard.dedupe);
  }
  fmt::print("{}", json ? json_text(line) + "\n" : text);
}

void print_tensors(const Checkpoint& checkpoint, bool json) {
  for (const ShardManifest& shard : checkpoint.manifest().shards) {
    for (const TensorEntry& entry : shard.tensors) {
      const nlohmann::json line = {
          {"event", "tensor"},          {"name", entry.name},           {"kind", name(entry.kind)},
          {"variable", entry.variable}, {"dtype", name(entry.dtype)},   {"shape", entry.shape.dims()},
          {"rows", entry.rows},         {"row_begin", entry.row_begin}, {"row_end", entry.row_end},
          {"stride", entry.stride},     {"shard", shard.shard},         {"file", shard.file},
          {"offset", entry.offset},     {"bytes", entry.bytes},         {"crc32c", entry.crc32c}};
      fmt::print("{}\n", json ? json_text(line)
                              : fmt::format("{:8} {}  {}{}, rows [{}, {}){} of {}, shard {}, {}, crc32c {:08x}",
                                            name(entry.kind), entry.name, name(entry.dtype), entry.shape.to_string(),
                                            entry.row_begin, entry.row_end,
                                            entry.stride == 1 ? "" : fmt::format(" step {}", entry.stride), entry.rows,
                                            shard.shard, bytes_text(entry.bytes), entry.crc32c));
    }
  }
}

}  // namespace

std::vector<ListedCheckpoint> checkpoints_at(FileSystem& files, const std::string& path) {
  if (files.exists(join_path(path, kManifestName))) return {{0, path, true}};
  std::vector<ListedCheckpoint> listed = list_checkpoints(files, path);
  if (listed.empty()) fail(Code::not_found, "no checkpoint or saved model at '{}'", path);
  return listed;
}

bool removed_meanwhile(FileSystem& files, const ListedCheckpoint& checkpoint) {
  return checkpoint.committed && !files.exists(join_path(checkpoint.folder, kManifestName));
}

int list(FileSystem& files, const std::string& path, bool json) {
  if (is_saved_model(files, path)) return list_model(files, path, json);
  if (files.exists(join_path(path, kManifestName))) {
    const Checkpoint checkpoint = open_checkpoint(files, path);
    print_job(checkpoint, json);
    print_tensors(checkpoint, json);
    return 0;
  }
  for (const ListedCheckpoint& listed : checkpoints_at(files, path)) print_checkpoint(files, listed, json);
  return 0;
}

}  // namespace troupe::checkpoints
