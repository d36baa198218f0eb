#include "troupe/scheduler/run/step_table.hpp"

namespace troupe {
namespace {

void check_feeds(const Plan& plan, const std::vector<Tensor>& feeds) {
  for (std::size_t i = 0; i < plan.feed_slots.size(); ++i)
    if (plan.feed_slots[i] != Plan::kNoSlot && (i >= feeds.size() || !feeds[i].valid()))
      invalid_argument("missing feed {}, which {} needs", i, plan.device);
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
                                     RandomKey random, const std::vector<Tensor>& feeds, std::uint32_t other_parts) {
  if (steps_.contains(key)) fail(Code::already_exists, "step {} is already running", key.step.value);
  for (const auto& registered : partitions) check_feeds(registered->plan(), feeds);
  Step& step = steps_[key];
  Progress progress;
  for (std::uint32_t part = 0; part < other_parts; ++part) step.parts_left.push_back(part);
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
  progress.ended = step.ended();
  return progress;
}

StepTable::Progress StepTable::arrived(const StepKey& key, std::uint32_t partition, std::uint32_t arrival,
                                       Tensor tensor) {
  Progress progress;
  const auto it = steps_.find(key);
  if (it == steps_.end()) return progress;
  Step& step = it->second;
  if (step.aborted()) return progress;
  PartitionState& state = step.partitions.at(partition);
  const Arrival& declared = state.registered->plan().arrivals.at(arrival);
  if (state.arrived[arrival]) return progress;
  if (tensor.dtype() != declared.dtype || !declared.shape.compatible_with(tensor.shape()))
    return abort(
        key, Error(Code::invalid_argument, fmt::format("'{}' from {} must be {}{}, not {}{}", declared.name,
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
  PartitionState& state = step.partitions.at(partition);
  --step.running;
  --state.running;
  state.waits.at(segment) = kHasRun;
  --step.segments_left;
  if (error) abort_step(step, error, progress);
  if (!step.aborted())
    for (std::uint32_t next : state.registered->plan().segments[segment].successors)
      if (--state.waits[next] == 0) release(key, step, partition, next, progress);
  progress.ended = step.ended();
  return progress;
}

StepTable::Progress StepTable::part_ended(const StepKey& key, std::uint32_t part, const Error& error) {
  Progress progress;
  const auto it = steps_.find(key);
  if (it == steps_.end()) return progress;
  Step& step = it->second;
  std::erase(step.parts_left, part);
  if (error) abort_step(step, error, progress);
  progress.ended = step.ended();
  return progress;
}

StepTable::Progress StepTable::abort(const StepKey& key, const Error& error) {
  Progress progress;
  const auto it = steps_.find(key);
  if (it == steps_.end()) return progress;
  abort_step(it->second, error, progress);
  progress.ended = it->second.ended();
  return progress;
}

void StepTable::abort_step(Step& step, const Error& error, Progress& progress) {
  if (step.aborted() || !error) return;
  step.error = error;
  progress.failed = true;
  for (PartitionState& p : step.partitions) p.frame->aborted.store(true, std::memory_order_relaxed);
}

Error StepTable::error(const StepKey& key) const {
  const auto it = steps_.find(key);
  return it == steps_.end() ? Error() : it->second.error;
}

bool StepTable::own_part_ended(const StepKey& key) const {
  const auto it = steps_.find(key);
  return it == steps_.end() || it->second.own_part_ended();
}

std::vector<std::uint32_t> StepTable::parts_left(const StepKey& key) const {
  const auto it = steps_.find(key);
  return it == steps_.end() ? std::vector<std::uint32_t>() : it->second.parts_left;
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
      out.push_back(fmt::format("{} segments queued on {}", p.running, plan.device));
  }
  return out;
}

StepTable::Result StepTable::finish(const StepKey& key) {
  Result result;
  auto node = steps_.extract(key);
  if (!node) return result;
  Step& step = node.mapped();
  result.error = std::move(step.error);
  const bool fetched = !result.error && step.segments_left == 0;
  for (PartitionState& p : step.partitions) {
    if (fetched)
      for (std::size_t i = 0; i < p.frame->fetches.size(); ++i)
        result.fetches.emplace_back(p.registered->plan().fetch_indices[i], std::move(p.frame->fetches[i]));
    if (p.running == 0) p.registered->give_back(std::move(p.frame));
  }
  return result;
}

std::vector<StepKey> StepTable::steps_of(SessionId session) const {
  std::vector<StepKey> out;
  for (const auto& [key, step] : steps_)
    if (key.session == session) out.push_back(key);
  return out;
}

}  // namespace troupe
