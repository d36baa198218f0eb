// The records of a parameter shard: fenced workers, applied batches, and the provenance of each version (the gradients
// applied to it, and those dropped).
//
// ShardState decides what to apply, based on these records. Not thread-safe.
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
    std::size_t versions = 1024;  // number of last versions remembered
    bool keep_history = false;    // record all versions for take_history()
    BatchSet applied;             // asynchronous: batches in the initial values
    bool fence = true;            // false: ShardGuards::fence
  };
  explicit ShardLedger(Options options);

  // ---- Members. Messages carry the view in which their worker joined (0: none; never fenced).
  enum class Sender {
    member,
    joined_again,  // drop the incomplete batches of its previous process
    fenced         // no longer a member
  };
  Sender sender(std::uint32_t worker, std::uint64_t view);
  // Fences earlier views of a worker. Returns whether to drop its incomplete batches.
  bool fence(const Fence& message);

  // ---- Turns of asynchronous training, by number: one for each phase of a batch.
  bool has(std::uint64_t batch) const { return applied_.contains(batch); }
  // Whether the batch was in the initial values.
  bool restored(std::uint64_t batch) const { return restored_.contains(batch); }
  // Whether the batch may be added: there are at most `intervals` intervals of applied batches, or it is adjacent to
  // one.
  bool near(std::uint64_t batch, std::size_t intervals) const {
    return applied_.intervals() <= intervals || applied_.touches(batch);
  }
  // Records that the batch goes into `version`.
  void add(std::uint64_t batch, std::uint64_t version);
  // The version that the batch went into, or `next` if it is not applied yet; nullopt if no longer known.
  std::optional<std::uint64_t> version_of(std::uint64_t batch, std::uint64_t next) const;
  const BatchSet& applied() const { return applied_; }

  // ---- Provenance.
  void note(std::uint64_t version, const SlotSource& source);
  // Records that all gradients of the set went into the version.
  // The source names the step, the phase and the slot.
  void note_applied(std::uint64_t version, const GradientSet& set, SlotSource source);
  // Whether `turn` used this slot; true if no longer known.
  bool used(std::uint64_t turn, std::uint32_t slot) const { return provenance_.applied(turn + 1, slot).value_or(true); }
  const Provenance* find(std::uint64_t version) const { return provenance_.find(version); }
  // Removes and returns the records of versions up to this one, since the last call.
  std::vector<Provenance> take_history(std::uint64_t version) { return history_.take(version); }

 private:
  bool raise(std::uint32_t worker, std::uint64_t view);

  std::size_t versions_;
  bool fence_;
  std::map<std::uint32_t, std::uint64_t> fences_;  // by worker: earlier views are fenced
  BatchSet applied_;
  BatchSet restored_;                                      // of these, in the initial values
  std::map<std::uint64_t, std::uint64_t> batch_versions_;  // the version each of the last batches went into
  ProvenanceBook provenance_;
  ProvenanceBook history_;  // not taken yet
};

}  // namespace troupe
