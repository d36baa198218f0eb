// The record of a parameter shard: fenced workers, batches that have been applied, and the provenance of each version
// (which gradients went into it, and which came for it and were dropped).
//
// ShardState decides what is applied; the ledger keeps the record, and is what that decision asks. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include <troupe/messages/frames.hpp>
#include <troupe/scheduler/training/batch_set.hpp>
#include <troupe/scheduler/training/provenance.hpp>
#include <troupe/scheduler/training/staging.hpp>

namespace troupe {

class ShardLedger {
 public:
  struct Options {
    std::size_t versions = 1024;  // the last so many are remembered
    bool keep_history = false;    // of all versions, for take_history()
    BatchSet applied;             // asynchronous: what is in the values at the start
    bool fence = true;            // false: ShardGuards::fence
  };
  explicit ShardLedger(Options options);

  // ---- Members. Messages carry the view in which their worker joined (0: none; never fenced).
  enum class Sender {
    member,
    joined_again,  // batches that its process before has begun must be forgotten
    fenced         // it is no member any more
  };
  Sender sender(std::uint32_t worker, std::uint64_t view);
  // Returns whether batches that this worker has begun must be forgotten.
  bool fence(const Fence& message);

  // ---- Batches of asynchronous training.
  bool has(std::uint64_t batch) const { return applied_.contains(batch); }
  // It was in the values at the start.
  bool restored(std::uint64_t batch) const { return restored_.contains(batch); }
  // It is no more than `intervals` gaps away from those before it.
  bool near(std::uint64_t batch, std::size_t intervals) const {
    return applied_.intervals() <= intervals || applied_.touches(batch);
  }
  // It goes into `version`.
  void add(std::uint64_t batch, std::uint64_t version);
  // The version that a batch went into, or would go into now, `next`. None: too long ago.
  std::optional<std::uint64_t> version_of(std::uint64_t batch, std::uint64_t next) const;
  const BatchSet& applied() const { return applied_; }

  // ---- Provenance.
  void note(std::uint64_t version, const SlotSource& source);
  // All gradients of the set went into the version.
  void note_applied(std::uint64_t version, const GradientSet& set, std::uint64_t step, std::uint32_t slot);
  // Did `step` use this slot? If that is forgotten: yes.
  bool used(std::uint64_t step, std::uint32_t slot) const { return provenance_.applied(step + 1, slot).value_or(true); }
  const Provenance* find(std::uint64_t version) const { return provenance_.find(version); }
  // Of the versions up to this one, since the last call.
  std::vector<Provenance> take_history(std::uint64_t version) { return history_.take(version); }

 private:
  bool raise(std::uint32_t worker, std::uint64_t view);

  std::size_t versions_;
  bool fence_;
  std::map<std::uint32_t, std::uint64_t> fences_;  // views below are fenced, by worker
  BatchSet applied_;
  BatchSet restored_;                                      // of these, before the start
  std::map<std::uint64_t, std::uint64_t> batch_versions_;  // into which version the last batches went
  ProvenanceBook provenance_;
  ProvenanceBook history_;  // not taken yet
};

}  // namespace troupe
