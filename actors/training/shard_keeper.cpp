#include "troupe/actors/training/shard_keeper.hpp"

#include <algorithm>

namespace troupe {

namespace {

std::map<std::string, std::vector<RowDraws>> draws_of(const ClusterJob& job, std::uint64_t seed) {
  std::map<std::string, std::vector<RowDraws>> out;
  const Graph& graph = *job.graph.graph;
  for (const VariableSpec& variable : job.map.variables()) {
    if (!variable.on_demand) continue;
    std::vector<RowDraws>& draws = out[variable.name];
    draws.emplace_back(graph, graph.endpoint(job.sharded.initial_values.at(variable.name)), seed);
    for (const SlotVariable& slot : job.sharded.rules.at(variable.name).slots)
      draws.emplace_back(graph, graph.endpoint(slot.initial_value), seed);
  }
  return out;
}

}  // namespace

ShardKeeper::ShardKeeper(const TrainingPlan& plan, const ClusterJob& job, std::function<void(const Error&)> failed)
    : map(job.map),
      rules(job.sharded.rules),
      draws(draws_of(job, plan.options.seed)),
      on_event(plan.options.on_event),
      checkpoints(plan, std::move(failed)),
      provenance(job.servers.provenance),
      store(std::make_shared<ParameterStore>(plan.task.device(), plan.task.kernels())),
      shard(plan.task.name().index),
      phases(job.phases()),
      form_(manifest_of(plan, job.settings, job.slots, 0)) {
  const auto owners = job.owning_shards();
  shards = static_cast<std::uint32_t>(owners.size());
  const auto self = std::ranges::find(owners, static_cast<std::uint32_t>(shard));
  owns = self != owners.end();
  position = static_cast<std::uint32_t>(self - owners.begin());
}

void ShardKeeper::write(std::function<void(std::optional<ProvenanceLog>&)> what) const {
  checkpoints.run([what = std::move(what), log = log_, directory = provenance, on_event = on_event,
                   self = shard_task(static_cast<std::uint32_t>(shard))] {
    try {
      what(*log);
    } catch (...) {
      log->reset();
      if (on_event)
        on_event({.kind = "provenance_failed",
                  .task = self,
                  .text = fmt::format("stopped writing provenance to '{}': {}; training continues", directory,
                                      current_error().message()),
                  .counts = {}});
    }
  });
}

void ShardKeeper::open_history() const {
  if (provenance.empty() || !owns) return;
  write([&files = checkpoints.files(), directory = provenance, shard = shard, version = start.version](
            std::optional<ProvenanceLog>& log) { log.emplace(files, directory, shard, version); });
}

void ShardKeeper::write_history(std::vector<Provenance> versions, bool flush) const {
  write([versions = std::move(versions), flush](std::optional<ProvenanceLog>& log) {
    if (!log) return;
    log->append(versions);
    if (flush) log->flush();
  });
}

void ShardKeeper::write_commits(const CommitLog& commits) const {
  if (provenance.empty()) return;
  write([&files = checkpoints.files(), text = commits.to_string(), path = join_path(provenance, "commits"),
         job = job](std::optional<ProvenanceLog>&) { replace_file(files, path, text, std::to_string(job)); });
}

void ShardKeeper::begin_with(Checkpoint& from) {
  restore(from, *store, map, rules, draws, shard);
  const bool asynchronous = from.manifest().job.mode == AsyncMode::kName;
  start = asynchronous && owns ? restored_cut(from, position, shards)
                               : ShardState::Cut{from.manifest().id.version * phases, {}};
}

void ShardKeeper::begin_with(const ShardValues& from) {
  for (const Slice& slice : map.slices()) {
    if (slice.shard != shard) continue;
    const ShardValues::Slice& values = from.slices.at(slice.id);
    if (slice.on_demand)
      store->add_on_demand(slice, rules.at(slice.variable), draws.at(slice.variable),
                           {values.numbers, values.value, values.slots}, values.skipped);
    else
      store->add(slice.id, slice.variable, rules.at(slice.variable), values.value, values.slots, values.skipped);
  }
  start = from.cut;
}

ShardValues ShardKeeper::values(const ShardState::Cut& cut) const {
  ShardValues out{.slices = {}, .cut = cut};
  for (const Slice& slice : map.slices()) {
    if (slice.shard != shard) continue;
    ShardValues::Slice& kept = out.slices[slice.id];
    kept.skipped = store->skipped(slice.id);
    if (slice.on_demand) {
      UpdatedRows rows = store->updated_rows(slice.id);
      kept.numbers = std::move(rows.numbers);
      kept.value = std::move(rows.value);
      kept.slots = std::move(rows.slots);
      continue;
    }
    kept.value = store->value(slice.id);
    for (std::size_t i = 0; i < rules.at(slice.variable).slots.size(); ++i)
      kept.slots.push_back(store->slot(slice.id, static_cast<int>(i)));
  }
  return out;
}

void ShardKeeper::save(const Save& request, const ShardState::Cut& cut, std::function<void(const Saved&)> say) const {
  if (!owns) return;
  checkpoints.write(
      {request.step, job}, contents_of(*store, map, rules, shard, position, shards, cut),
      [say = std::move(say), step = request.step, self = static_cast<std::uint32_t>(shard), job = job](
          const ShardManifest& written, const Error& error) {
        say({.shard = self, .step = step, .files = error ? "" : encode(written), .error = error, .job = job});
      });
}

void ShardKeeper::commit(const SaveRound& round, std::uint64_t steps_per_epoch, std::function<void()> done) const {
  CheckpointManifest manifest = form_;
  manifest.job.steps_per_epoch = steps_per_epoch;
  set_state(manifest, *round.state, round.step, job);
  for (const auto& [shard, saved] : round.shards) manifest.shards.push_back(decode_shard_manifest(saved.files));
  const CheckpointKeeper::Clock::time_point began{std::chrono::nanoseconds(round.began)};
  checkpoints.commit(std::move(manifest), began, std::move(done));
}

}  // namespace troupe
