#include "troupe/actors/training/session_checkpoints.hpp"

#include <troupe/actors/training/callback.hpp>
#include <troupe/actors/training/job_checkpoints.hpp>
#include <troupe/messages/ids.hpp>

namespace troupe {
namespace {

std::set<std::string> names_of(const std::vector<VariableRef>& variables) {
  std::set<std::string> out;
  for (const VariableRef& v : variables) out.insert(v.name);
  return out;
}

Output output(const Graph& graph, const Endpoint& endpoint) {
  return {const_cast<Graph*>(&graph), endpoint.node, endpoint.index};
}

}  // namespace

SessionCheckpoints::SessionCheckpoints(const TrainingPlan& plan, const TrainingGraph& graph, Session& session,
                                       std::string settings, std::uint32_t slots, std::uint64_t steps_per_epoch,
                                       bool writes)
    : options_(plan.options),
      state_(plan.state),
      graph_(*graph.graph),
      variables_(troupe::variables(*graph.graph)),
      parameters_(names_of(graph.parameters)),
      frozen_(names_of(graph.frozen)),
      loss_scale_(graph.loss_scale ? graph.loss_scale->state.name : ""),
      settings_(std::move(settings)),
      form_(manifest_of(plan, settings_, slots, steps_per_epoch)),
      model_(graph.parameters),
      last_(decides(plan.options.callbacks) ? 0 : static_cast<std::uint64_t>(plan.options.epochs) * steps_per_epoch),
      phases_(graph.phases.size()) {
  Outputs reads, reads_of_model;
  for (const VariableInfo& v : variables_) reads.push_back(find_variable(*graph.graph, v.name).read());
  for (const VariableRef& v : model_) reads_of_model.push_back(v.read());
  read_ = session.callable({}, reads);
  read_model_ = session.callable({}, reads_of_model);
  if (plan.options.checkpoint.empty()) return;
  every_ = plan.options.checkpoint_every > 0 ? plan.options.checkpoint_every
           : steps_per_epoch > 0             ? steps_per_epoch
                                             : kSaveEvery;
  if (writes) keeper_.emplace(plan);
}

Feeds SessionCheckpoints::feeds_of(const std::map<std::string, Tensor>& values) const {
  Feeds feeds;
  for (const VariableInfo& v : variables_)
    if (const auto value = values.find(v.name); value != values.end())
      feeds.emplace_back(output(graph_, v.initial_value), value->second);
  return feeds;
}

SessionCheckpoints::Start SessionCheckpoints::start() {
  Start start = state_.ended ? Start{state_.ended->at, state_.ended->variables, {}} : Start{{}, state_.parameters, {}};
  if (auto saved = newest()) start = std::move(*saved);
  return start;
}

std::map<std::string, Tensor> SessionCheckpoints::read_all() const {
  const std::vector<Tensor> values = read_({});
  std::map<std::string, Tensor> out;
  for (std::size_t i = 0; i < values.size(); ++i) out.emplace(variables_[i].name, values[i]);
  return out;
}

Parameters SessionCheckpoints::read_parameters() const {
  const std::vector<Tensor> values = read_model_({});
  Parameters out;
  for (std::size_t i = 0; i < values.size(); ++i) out.emplace(model_[i].name, values[i]);
  return out;
}

std::optional<SessionCheckpoints::Start> SessionCheckpoints::newest() {
  if (!keeper_) return std::nullopt;
  auto from = keeper_->newest(settings_);
  if (!from || (state_.ended && from->manifest().id.version <= state_.ended->at.step)) return std::nullopt;
  Start start{state_in(*from), {}, {}};
  const std::uint64_t known = form_.job.steps_per_epoch;
  if (start.state.step != from->manifest().id.version || start.state.step < start.state.epoch_step ||
      (known > 0 &&
       (start.state.epoch_step != start.state.epoch * known || start.state.step - start.state.epoch_step > known)))
    fail(Code::failed_precondition,
         "checkpoint '{}' has version {} but is at step {} in epoch {}: it belongs to another job", from->folder(),
         from->manifest().id.version, start.state.step, start.state.epoch);
  for (const VariableInfo& v : variables_)
    if (is_update_count(v.name))
      start.values[v.name] = Tensor::scalar(static_cast<std::int64_t>(start.state.step) - skipped_in(*from));
    else if (!frozen_.contains(v.name))
      start.values[v.name] = read_checked(*from, v.name, v.dtype, v.shape);
    else if (const auto given = state_.parameters.find(v.name); given != state_.parameters.end())
      start.values[v.name] = given->second;
  for (const VariableRef& v : model_)
    if (from->variables().contains(kept_name(v.name)))
      start.kept[v.name] = read_checked(*from, kept_name(v.name), v.dtype, v.shape);
  if (options_.on_event)
    options_.on_event({.kind = "goes_on",
                       .task = {},
                       .step = start.state.step,
                       .text = going_on(*from, form_.job.epochs),
                       .counts = {}});
  return start;
}

void SessionCheckpoints::begin_at(std::uint64_t step) { first_ = saved_ = step; }

void SessionCheckpoints::read(std::uint64_t step, bool wait) {
  if (keeper_) keeper_->check();
  if (!keeper_ || (step != last_ && !keeper_->may_save(step))) return;
  reading_.push_back({step, CheckpointKeeper::Clock::now(), read_.async({})});
  if (wait) reading_.back().values.wait();
}

void SessionCheckpoints::save(const JobState& state, const Parameters& kept) {
  if (reading_.empty() || reading_.front().step != state.step) return;
  Reading reading = std::move(reading_.front());
  reading_.pop_front();
  CheckpointManifest manifest = form_;
  set_state(manifest, state, state.step, random_id());
  keeper_->save(std::move(manifest), contents_of(reading.values.get(), state.step, kept), reading.began);
  saved_ = state.step;
}

void SessionCheckpoints::save_stopped(const JobState& state, const Parameters& kept) {
  if (!keeper_) return;
  if (state.step > saved_) {
    reading_.clear();
    reading_.push_back({state.step, CheckpointKeeper::Clock::now(), read_.async({})});
    save(state, kept);
  }
  TrainingOptions patient = options_;
  patient.stop = nullptr;
  keeper_->wait(patient);
}

void SessionCheckpoints::save_last(const JobState& state, const Parameters& kept) {
  if (!keeper_ || last_ > 0 || state.step == first_) return;
  reading_.clear();
  reading_.push_back({state.step, CheckpointKeeper::Clock::now(), read_.async({})});
  save(state, kept);
}

std::string SessionCheckpoints::owner_of(const std::string& slot) const {
  std::string owner;
  for (const std::string& name : parameters_)
    if (slot.starts_with(name + "/") && name.size() > owner.size()) owner = name;
  return owner;
}

ShardContents SessionCheckpoints::contents_of(const std::vector<Tensor>& values, std::uint64_t step,
                                              const Parameters& kept) const {
  ShardContents out{.shard = 0, .shards = 1, .tensors = {}, .dedupe = dedupe_of({step * phases_, {}})};
  std::int64_t updates = static_cast<std::int64_t>(step), skipped = 0;
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    const VariableInfo& v = variables_[i];
    if (v.name == loss_scale_) skipped = static_cast<std::int64_t>(values[i].data<double>()[2]);
    if (is_update_count(v.name)) {
      updates = values[i].item<std::int64_t>();
      continue;
    }
    if (frozen_.contains(v.name)) continue;
    const bool slot = !parameters_.contains(v.name) && v.name != loss_scale_;
    out.tensors.push_back({.name = v.name,
                           .kind = slot ? TensorKind::slot : TensorKind::variable,
                           .variable = slot ? owner_of(v.name) : "",
                           .value = values[i]});
  }
  for (const auto& [name, value] : kept)
    if (!frozen_.contains(name)) out.tensors.push_back(kept_value(name, value));
  if (updates != static_cast<std::int64_t>(step) - skipped)
    fail(Code::internal, "{} steps, of which {} were skipped, made {} updates", step, skipped, updates);
  out.tensors.push_back(skipped_state(skipped));
  return out;
}

}  // namespace troupe
