#include "troupe/scheduler/run/step_table.hpp"

namespace troupe {
namespace {

void check_feeds(const Plan& plan, const std::vector<Tensor>& feeds) {
  for (std::size_t i = 0; i < plan.feed_slots.size(); ++i)
    if (plan.feed_slots[i] != Plan::kNoSlot && (i >= feeds.size() || !feeds[i].valid()))
      invalid_argument("feed {}, which {} needs, is missing", i, plan.device);
}

}  // namespace

std::shared_ptr<PlanFrame> RegisteredPartition::make_frame() const {
  return std::make_shared<PlanFrame>(*plan_, variables_,
                                     std::make_shared<std::pair<decltype(plan_), decltype(store_)>>(plan_, store_));
}

std::shared_ptr<PlanFrame> RegisteredPartition::take_frame() {
  if (free_.empty()) return make_frame();
  auto frame = std::move(free_.back());
  free_.pop_back();
  return frame;
}

void RegisteredPartition::give_back(std::shared_ptr<PlanFrame> frame) {
  frame->clear();
  free_.push_back(std::move(frame));
}

void StepTable::release(const StepKey& key, Step& step, std::uint32_t partition, std::uint32_t segment,
                        Progress& progress) {
  PartitionState& state = step.partitions[partition];
  ++step.running;
  ++state.running;
  progress.ready.push_back({key, partition, segment, state.frame});
}

StepTable::Progress StepTable::start(const StepKey& key, std::vector<std::shared_ptr<RegisteredPartition>> partitions,
                                     RandomKey random, const std::vector<Tensor>& feeds) {
  if (steps_.contains(key)) fail(Code::already_exists, "step {} runs already", key.step.value);
  for (const auto& registered : partitions) check_feeds(registered->plan(), feeds);
  Step& step = steps_[key];
  Progress progress;
  for (auto& registered : partitions) {
    PartitionState state;
    state.frame = registered->take_frame();
    state.frame->begin(random);
    const Plan& plan = registered->plan();
    for (std::size_t i = 0; i < plan.feed_slots.size(); ++i)
      if (plan.feed_slots[i] != Plan::kNoSlot) state.frame->slots[plan.feed_slots[i]] = feeds[i];
    for (const Segment& segment : plan.segments) state.waits.push_back(segment.waits);
    state.arrived.assign(plan.arrivals.size(), false);
    step.segments_left += plan.segments.size();
    state.registered = std::move(registered);
    step.partitions.push_back(std::move(state));
  }
  for (std::uint32_t p = 0; p < step.partitions.size(); ++p)
    for (std::uint32_t s = 0; s < step.partitions[p].waits.size(); ++s)
      if (step.partitions[p].waits[s] == 0) release(key, step, p, s, progress);
  progress.ended = ended(step);
  return progress;
}

StepTable::Progress StepTable::arrived(const StepKey& key, std::uint32_t partition, std::uint32_t arrival,
                                       Tensor tensor) {
  Progress progress;
  const auto it = steps_.find(key);
  if (it == steps_.end()) return progress;
  Step& step = it->second;
  if (step.aborted) return progress;
  PartitionState& state = step.partitions.at(partition);
  const Arrival& declared = state.registered->plan().arrivals.at(arrival);
  if (state.arrived[arrival]) return progress;
  if (tensor.dtype() != declared.dtype || !declared.shape.compatible_with(tensor.shape()))
    return abort(
        key, Error(Code::invalid_argument, fmt::format("'{}' from {} must be {}{}; {}{} came", declared.name,
                                                       declared.from, name(declared.dtype), declared.shape.to_string(),
                                                       name(tensor.dtype()), tensor.shape().to_string())));
  state.arrived[arrival] = true;
  state.frame->slots[declared.slot] = std::move(tensor);
  for (std::uint32_t s : declared.segments)
    if (--state.waits[s] == 0) release(key, step, partition, s, progress);
  return progress;
}

StepTable::Progress StepTable::segment_done(const StepKey& key, std::uint32_t partition, std::uint32_t segment,
                                            const Error& error) {
  Progress progress;
  const auto it = steps_.find(key);
  if (it == steps_.end()) return progress;
  Step& step = it->second;
  --step.running;
  --step.partitions.at(partition).running;
  step.partitions[partition].waits.at(segment) = kHasRun;
  --step.segments_left;
  if (error && !step.aborted) abort_step(step, error);
  if (!step.aborted) {
    PartitionState& state = step.partitions.at(partition);
    for (std::uint32_t next : state.registered->plan().segments[segment].successors)
      if (--state.waits[next] == 0) release(key, step, partition, next, progress);
  }
  progress.ended = ended(step);
  return progress;
}

void StepTable::abort_step(Step& step, const Error& error) {
  step.aborted = true;
  step.error = error;
  for (PartitionState& p : step.partitions) p.frame->aborted.store(true, std::memory_order_relaxed);
}

StepTable::Progress StepTable::abort(const StepKey& key, const Error& error) {
  Progress progress;
  const auto it = steps_.find(key);
  if (it == steps_.end()) return progress;
  if (!it->second.aborted) abort_step(it->second, error);
  progress.ended = ended(it->second);
  return progress;
}

Error StepTable::error(const StepKey& key) const {
  const auto it = steps_.find(key);
  return it == steps_.end() ? Error() : it->second.error;
}

std::size_t StepTable::running(const StepKey& key, std::uint32_t partition) const {
  const auto it = steps_.find(key);
  return it == steps_.end() ? 0 : it->second.partitions.at(partition).running;
}

std::vector<std::string> StepTable::waits_for(const StepKey& key) const {
  std::vector<std::string> out;
  const auto it = steps_.find(key);
  if (it == steps_.end()) return out;
  for (const PartitionState& p : it->second.partitions) {
    const Plan& plan = p.registered->plan();
    for (std::size_t a = 0; a < plan.arrivals.size(); ++a)
      if (!p.arrived[a])
        out.push_back(
            fmt::format("tensor '{}' from {} for {}", plan.arrivals[a].name, plan.arrivals[a].from, plan.device));
  }
  for (const PartitionState& p : it->second.partitions) {
    if (p.running == 0) continue;
    const Plan& plan = p.registered->plan();
    const std::string node = p.frame->running();
    if (!node.empty())
      out.push_back(fmt::format("{} running on {}", node, plan.device));
    else
      out.push_back(fmt::format("{} segments in the queue of {}", p.running, plan.device));
  }
  return out;
}

std::vector<std::pair<std::uint32_t, Tensor>> StepTable::take_fetches(const StepKey& key) {
  std::vector<std::pair<std::uint32_t, Tensor>> out;
  for (PartitionState& p : steps_.at(key).partitions)
    for (std::size_t i = 0; i < p.frame->fetches.size(); ++i)
      out.emplace_back(p.registered->plan().fetch_indices[i], std::move(p.frame->fetches[i]));
  return out;
}

void StepTable::finish(const StepKey& key) {
  auto node = steps_.extract(key);
  if (!node) return;
  for (PartitionState& p : node.mapped().partitions)
    if (p.running == 0) p.registered->give_back(std::move(p.frame));
}

std::vector<StepKey> StepTable::steps_of(SessionId session) const {
  std::vector<StepKey> out;
  for (const auto& [key, step] : steps_)
    if (key.session == session) out.push_back(key);
  return out;
}

}  // namespace troupe
