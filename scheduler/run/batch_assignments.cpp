#include "troupe/scheduler/run/batch_assignments.hpp"

#include <algorithm>
#include <utility>

#include <troupe/messages/error.hpp>

namespace troupe {

BatchAssignments::BatchAssignments(const Options& options) : options_(options) {
  if (options.in_flight < 1 || options.window < 1)
    invalid_argument("a replica must have at least 1 batch in flight and a window at least 1, not {} and {}",
                     options.in_flight, options.window);
}

void BatchAssignments::join(std::size_t replica) {
  if (!replicas_.try_emplace(replica).second)
    fail(Code::failed_precondition, "replica {} has joined already: it must be lost before it joins again", replica);
}

std::vector<std::uint64_t> BatchAssignments::lose(std::size_t replica) {
  std::vector<std::uint64_t> out;
  const auto lost = replicas_.extract(replica);
  if (lost.empty()) return out;
  for (const std::uint64_t number : lost.mapped()) {
    const std::uint64_t batch = assignments_.extract(number).mapped().batch;
    if (!kept(batch)) continue;
    Batch& state = at(batch);
    --state.copies;
    if (state.finished) continue;
    ++state.losses;
    if (state.copies > 0) continue;
    waiting_.insert(batch);
    out.push_back(batch);
  }
  std::ranges::sort(out);
  return out;
}

bool BatchAssignments::wants_batch() const {
  return !ended_ && waiting_.empty() && batches_.size() < options_.window && free_replica();
}

std::uint64_t BatchAssignments::add() {
  if (!wants_batch())
    fail(Code::failed_precondition, "batch {} was added where none was wanted", first_ + batches_.size());
  batches_.emplace_back();
  const std::uint64_t batch = first_ + batches_.size() - 1;
  waiting_.insert(batch);
  return batch;
}

std::optional<BatchAssignments::Assignment> BatchAssignments::assign() {
  const auto replica = free_replica();
  if (!replica) return std::nullopt;
  if (!waiting_.empty()) return start(waiting_.extract(waiting_.begin()).value(), *replica);
  if (!options_.repeat_slow || wants_batch() || !replicas_.at(*replica).empty()) return std::nullopt;
  const auto slow = slow_batch();
  return slow ? std::optional(start(*slow, *replica)) : std::nullopt;
}

bool BatchAssignments::counts(std::uint64_t assignment) const {
  const auto found = assignments_.find(assignment);
  return found != assignments_.end() && kept(found->second.batch) && !at(found->second.batch).finished;
}

bool BatchAssignments::finish(std::uint64_t assignment) {
  const auto found = assignments_.extract(assignment);
  if (found.empty()) return false;
  const auto& [number, batch, replica] = found.mapped();
  replicas_.at(replica).erase(number);
  if (!kept(batch)) return false;
  Batch& state = at(batch);
  --state.copies;
  return !std::exchange(state.finished, true);
}

std::optional<std::uint64_t> BatchAssignments::hand_out() {
  if (batches_.empty() || !batches_.front().finished) return std::nullopt;
  batches_.pop_front();
  return first_++;
}

std::size_t BatchAssignments::in_flight(std::size_t replica) const {
  const auto found = replicas_.find(replica);
  return found == replicas_.end() ? 0 : found->second.size();
}

std::optional<std::size_t> BatchAssignments::free_replica() const {
  const auto least = std::ranges::min_element(replicas_, {}, [](const auto& entry) { return entry.second.size(); });
  if (least == replicas_.end() || least->second.size() >= options_.in_flight) return std::nullopt;
  return least->first;
}

std::optional<std::uint64_t> BatchAssignments::slow_batch() const {
  for (std::size_t i = 0; i < batches_.size(); ++i)
    if (!batches_[i].finished && batches_[i].copies == 1) return first_ + i;
  return std::nullopt;
}

BatchAssignments::Assignment BatchAssignments::start(std::uint64_t batch, std::size_t replica) {
  const Assignment made{next_++, batch, replica};
  assignments_.emplace(made.number, made);
  replicas_.at(replica).insert(made.number);
  ++at(batch).copies;
  return made;
}

}  // namespace troupe
