#include "troupe/scheduler/training/shard_ledger.hpp"

#include <utility>

namespace troupe {

ShardLedger::ShardLedger(Options options)
    : versions_(options.versions),
      fence_(options.fence),
      applied_(options.applied),
      restored_(std::move(options.applied)),
      provenance_(options.versions),
      history_(options.keep_history ? options.versions : 0) {}

ShardLedger::Sender ShardLedger::sender(std::uint32_t worker, std::uint64_t view) {
  if (view == 0 || !fence_) return Sender::member;
  const auto fence = fences_.find(worker);
  if (fence != fences_.end() && view < fence->second) return Sender::fenced;
  return raise(worker, view) ? Sender::joined_again : Sender::member;
}

// Returns whether a later view replaces a known one: half-pushed batches must not mix with those of the new
// incarnation.
bool ShardLedger::raise(std::uint32_t worker, std::uint64_t view) {
  std::uint64_t& fence = fences_[worker];
  return view > fence && std::exchange(fence, view) != 0;
}

bool ShardLedger::fence(const Fence& message) {
  if (!fence_) return false;
  const bool first = !fences_.contains(message.worker);
  return raise(message.worker, message.view) || first;
}

void ShardLedger::add(std::uint64_t batch, std::uint64_t version) {
  applied_.insert(batch);
  batch_versions_[batch] = version;
  if (batch_versions_.size() > versions_) batch_versions_.erase(batch_versions_.begin());
}

std::optional<std::uint64_t> ShardLedger::version_of(std::uint64_t batch, std::uint64_t next) const {
  if (const auto went = batch_versions_.find(batch); went != batch_versions_.end()) return went->second;
  if (has(batch)) return std::nullopt;
  return next;
}

void ShardLedger::note(std::uint64_t version, const SlotSource& source) {
  provenance_.note(version, source);
  history_.note(version, source);
}

void ShardLedger::note_applied(std::uint64_t version, const GradientSet& set, SlotSource source) {
  for (const auto& [worker, gradients] : set.senders()) {
    source.worker = worker;
    source.gradients = gradients;
    note(version, source);
  }
}

}  // namespace troupe
