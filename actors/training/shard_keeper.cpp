#include "actors/training/shard_keeper.hpp"

#include <caf/actor_system.hpp>
#include <caf/send.hpp>
#include <algorithm>
#include <chrono>

namespace troupe {

ShardKeeper::ShardKeeper(const TrainingPlan& plan, const ClusterJob& job)
    : map(job.map),
      rules(job.sharded.rules),
      directory(plan.options.checkpoint),
      kept(plan.options.checkpoints_kept),
      on_event(plan.options.on_event),
      store(std::make_shared<ParameterStore>(plan.task.device(), plan.task.kernels())),
      shard(plan.task.name().index) {
  const auto owners = job.owning_shards();
  shards = static_cast<std::uint32_t>(owners.size());
  const auto self = std::ranges::find(owners, static_cast<std::uint32_t>(shard));
  owns = self != owners.end();
  position = static_cast<std::uint32_t>(self - owners.begin());
  if (directory.empty()) return;
  writer_ = plan.task.system().spawn<CheckpointActorImpl, caf::detached>(plan.task.actors().add("checkpoint", plan.task.name().to_string()));
}

void ShardKeeper::stop() const {
  if (writer_) caf::anon_send(writer_, Stop{});
}

void ShardKeeper::post(std::function<void()> what) const {
  struct Work final : LocalWork {
    explicit Work(std::function<void()> given) : what(std::move(given)) {}
    void run() override { what(); }
    std::function<void()> what;
  };
  caf::anon_send(writer_, WriteCheckpoint{std::make_shared<Work>(std::move(what))});
}

void ShardKeeper::begin_with(Checkpoint& from) {
  restore(from, *store, map, rules, shard);
  const bool asynchronous = from.manifest().job.mode == "async";
  start = asynchronous && owns ? restored_cut(from, position, shards) : ShardState::Cut{from.manifest().id.version, {}};
}

void ShardKeeper::save(const Save& request, const ShardState::Cut& cut, std::function<void(const Saved&)> say) const {
  if (!owns) return;
  post([contents = contents_of(*store, map, rules, shard, position, shards, cut), id = CheckpointId{request.version, job},
        directory = directory, say = std::move(say), self = static_cast<std::uint32_t>(shard), job = job]() mutable {
    Saved saved{.shard = self, .version = id.version, .files = {}, .error = {}, .job = job};
    try {
      saved.files = encode(write_shard(posix_file_system(), directory, id, std::move(contents)));
    } catch (...) {
      saved.error = current_error();
    }
    say(saved);
  });
}

void ShardKeeper::commit(const SaveRound& round, const JobState& state, const JobOptions& options) const {
  post([manifest = manifest_of(round, state, options, job), directory = directory, kept = kept, on_event = on_event] {
    JobEvent event{.kind = "saved", .task = {}, .step = manifest.id.version, .text = {}, .counts = {}};
    try {
      commit_checkpoint(posix_file_system(), directory, manifest);
      event.text = fmt::format("saved step {} in '{}'", manifest.id.version, directory);
      if (on_event) on_event(event);
      remove_old_checkpoints(posix_file_system(), directory, kept, manifest.id.version);
    } catch (...) {
      event.kind = "save_failed";
      event.text = fmt::format("saving step {} in '{}': {}", manifest.id.version, directory, current_error().message());
      if (on_event) on_event(event);
    }
  });
}

}  // namespace troupe
