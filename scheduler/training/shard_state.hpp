// The training protocol of one parameter shard: stages pushed gradients, applies them, and answers pulls.
//
//   synchronous, bounded_staleness: gradients are staged by (turn, slot, slice). Once all slots of turn `version` have
//   pushed a slice, it is updated with mean_of its N gradients in slot order, while others still arrive. When all
//   slices of the turn's phase are updated, the version becomes turn + 1; turns whose phase has no slices here are
//   passed over. So results depend neither on which worker computed a slot nor on arrival times. With backup slots a
//   turn has more than N slots, and waits for the coordinator's Commit, which names N of them.
//   asynchronous: the gradients of a phase of a worker's batch are applied together when all have arrived, never twice.
//   Not earlier: the rest may never arrive, and an update cannot be undone.
//
// Small slices travel in packs: a Push names the pack, and is that of each of its slices; a Pull may name either.
//
// All slices of a phase change version together: no reader sees half an update. Values are handles of tensors that
// never change. A message that is not accepted leaves the state unchanged: repeated or late ones are dropped and
// counted without an error; invalid ones are refused and counted, and return an Error for the sender.
//
// Not thread-safe: one actor owns it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <troupe/graph/passes/shard_map.hpp>
#include <troupe/scheduler/training/batch_set.hpp>
#include <troupe/scheduler/training/gradient.hpp>
#include <troupe/scheduler/training/kept_value.hpp>
#include <troupe/scheduler/training/outgoing.hpp>
#include <troupe/scheduler/training/shard_ledger.hpp>
#include <troupe/scheduler/training/shard_options.hpp>
#include <troupe/scheduler/training/shard_store.hpp>
#include <troupe/scheduler/training/staging.hpp>
#include <troupe/scheduler/training/turns.hpp>
#include <troupe/scheduler/waits/wait_graph.hpp>

namespace troupe {

struct ShardCounters {
  std::uint64_t pulls = 0;        // answered, immediately or later
  std::uint64_t parked = 0;       // of these, those that had to wait
  std::uint64_t pushes = 0;       // staged
  std::uint64_t duplicates = 0;   // dropped: already staged, or the batch already applied
  std::uint64_t stale = 0;        // dropped: for a turn below the version
  std::uint64_t uncommitted = 0;  // dropped: for a slot that its turn did not use
  std::uint64_t fenced = 0;       // dropped: pushes and pulls of former members
  std::uint64_t refused = 0;      // invalid; an Error was returned
  std::uint64_t abandoned = 0;    // gradient sets dropped because their worker was lost
  std::uint64_t batches = 0;      // slots or batches that went into updates
  std::uint64_t updates = 0;
  std::uint64_t rows_pulled = 0;   // of slices pulled by rows
  std::uint64_t rows_pushed = 0;   // of sparse gradients staged
  std::uint64_t staged_bytes = 0;  // now
  std::uint64_t staged_bytes_peak = 0;
  // [s]: slots or batches computed s updates before the one they went into; the last bucket: that or more.
  std::array<std::uint64_t, 16> staleness{};
};

// Progress of the next version.
struct ShardWait {
  std::uint64_t version = 0;
  std::uint32_t have = 0;  // slots (asynchronous: accumulated batches)
  std::uint32_t need = 0;
  std::vector<std::uint32_t> missing;  // slots; at most the first 16
  bool uncommitted = false;            // backups: the slots of the step are not chosen yet
  std::size_t parked = 0;              // waiting pulls
  std::uint64_t highest_wanted = 0;    // the highest min_version among them
  std::string to_string() const;       // "version 7: 1 of 2 staged, missing slots 1; 3 pulls wait, for up to version 8"
};

class ShardState {
 public:
  // `store` must outlive the object. Throws invalid_argument for contradictory options, a duplicate slice, a dtype
  // without gradients, or a pack of other slices, dtypes or sizes.
  ShardState(const ShardOptions& options, std::vector<SliceSpec> slices, ShardStore& store,
             const std::vector<SlicePack>& packs = {});

  // Stages a gradient, and applies completed updates. Sends Staged to the coordinator when the micro-batch is whole,
  // and Put to workers whose pulls can now be answered. Errors: invalid_argument (unknown slice, worker or slot;
  // gradient with the wrong dtype or shape, or computed on a disallowed version), out_of_range (step or batch too far
  // ahead), resource_exhausted (too many open batches), and failure().
  [[nodiscard]] Error push(Push message, TrainingOutbox& out);
  // Sets the slots that a step uses. Errors: failed_precondition (no backups, or the step used other slots),
  // invalid_argument (impossible slots), out_of_range (a step too far ahead), and failure().
  [[nodiscard]] Error commit(const Commit& message, TrainingOutbox& out);
  // Handles a new view of a worker: drops what worker_down() drops, and later also its messages from earlier views. A
  // push or pull from a later view does the same.
  void fence(const Fence& message);
  // Answers with a Put, now or when the version is reached. Errors: invalid_argument, resource_exhausted, failure().
  [[nodiscard]] Error pull(const Pull& message, TrainingOutbox& out);
  // Calls `take` when the store holds the values after `step` steps, now or later; nothing is applied before it
  // returns. Asynchronous: at any version, never with half a turn applied. take() reads handles: training continues
  // while they are written. Errors: failed_precondition (all or some slices are past that), resource_exhausted
  // (too many cuts are waiting), and failure(). Cuts still waiting when the shard fails are never taken.
  struct Cut {
    std::uint64_t version = 0;
    BatchSet applied;  // asynchronous: the turns in these values
  };
  using TakeCut = std::function<void(const Cut&)>;
  [[nodiscard]] Error cut(std::uint64_t step, TakeCut take);
  // Drops the parked pulls of a lost worker and its incomplete batches. Whole slots stay: they remain valid.
  void worker_down(std::uint32_t worker);
  // Fails the shard: parked pulls are answered with the error, later messages return it.
  void fail(const Error& error, TrainingOutbox& out);

  std::uint64_t version() const { return version_; }
  Cut cut() const { return {version_, ledger_.applied()}; }  // as of now
  // Set by fail() or by an update that threw; do not use the values then.
  const Error& failure() const { return failure_; }
  const ShardCounters& counters() const { return counters_; }
  ShardWait waiting() const;
  // The same as things and waits (wait_graph.hpp), for the shard of `task` in `job`. Empty if no pull or cut is
  // waiting.
  Waiting waiting(std::uint64_t job, const std::string& task) const;
  // The gradients applied to a version, and those dropped. Null if it is not among the last ShardOptions::provenance.
  const Provenance* provenance(std::uint64_t version) const { return ledger_.find(version); }
  // Removes and returns the same for all versions since the last call; an earlier version appears again if more
  // gradients arrived for it. Call at least every ShardOptions::provenance versions: older records are lost. `all`:
  // also those for the next version.
  std::vector<Provenance> take_history(bool all) { return ledger_.take_history(all ? ~std::uint64_t{0} : version_); }

 private:
  struct Owned {
    SliceSpec spec;
    std::size_t unit = 0;  // in units_
    bool updated = false;  // already at version_ + 1 in the store
    KeptValue current;     // if so: its value at version_, if kept
  };

  // What is pushed, staged and updated as one: a slice, or a pack.
  struct Unit {
    std::vector<std::size_t> slices;  // positions in slices_
    std::optional<SlicePack> pack;
    std::uint32_t phase = 0;
    std::optional<bool> sparse{};  // the form of its gradients, fixed by the first
  };

  // What a Pull names: a slice, or a pack.
  struct Named {
    std::span<const std::size_t> slices;  // positions in slices_
    const SlicePack* pack = nullptr;
  };

  static std::vector<Owned> sorted(const ShardOptions& options, std::vector<SliceSpec> slices);
  std::vector<Unit> in_units(const std::vector<SlicePack>& packs) const;
  UnitCounts counts() const;
  template <class... Args>
  static Error error(Code code, fmt::format_string<Args...> format, Args&&... args) {
    return Error(code, fmt::format(format, std::forward<Args>(args)...));
  }
  Error refuse(Error error);
  Error find_slice(std::uint32_t id, std::size_t& slice) const;
  // Pushes: shard_pushes.cpp
  Error find_unit(std::uint32_t id, std::size_t& unit) const;
  Error check(const Push& message, std::size_t& unit) const;
  static Error check_pack(const SlicePack& pack, const Push& message);
  Error push_slot(Push& message, std::size_t unit, TrainingOutbox& out);
  Error push_batch(Push& message, std::size_t unit, TrainingOutbox& out);
  Error check_pulled_version(const Push& message) const;
  Error check_commit(const Commit& message) const;
  std::uint64_t turn_of(std::uint64_t step, std::uint32_t phase) const {
    return troupe::turn_of(step, phase, options_.phases);
  }
  SlotSource source_of(std::uint64_t turn, std::uint32_t slot, Fate fate) const;
  bool has_part_in(std::uint64_t turn) const { return counts_.of_turn(turn) > 0; }
  std::uint64_t own_turn(std::uint64_t turn) const;
  bool is_last_of_phase(std::size_t unit) const;
  std::uint64_t unchanged_since() const;
  void pass_over();
  bool is_fenced(std::uint32_t worker, std::uint64_t view);
  void drop(const Push& message, std::size_t unit, Fate fate);
  void advance(TrainingOutbox& out);
  void choose_alone(std::size_t unit);
  void stage(GradientSet& set, Push& message, std::size_t unit);
  void update(const Unit& unit, std::vector<PushedGradient> gradients, std::uint64_t number, double rate_scale,
              bool keep, TrainingOutbox& out);
  void update_early(std::size_t unit, TrainingOutbox& out);
  void update_batches(std::uint32_t phase, TrainingOutbox& out);
  double note_staleness(const std::vector<std::uint64_t>& pulled_versions);
  void say_staged(const Push& message, TrainingOutbox& out) const;
  void publish(std::size_t batches);
  void take_cuts();
  KeptValue kept(std::size_t slice, const PushedGradient& gradient) const;
  // Pulls: shard_pulls.cpp
  std::optional<Named> named(std::uint32_t id) const;
  Error check_rows_of(const Pull& message, const Named& wanted) const;
  std::size_t versions_back(std::uint64_t version) const;
  Tensor value_at(std::size_t slice, std::size_t versions_back) const;
  Tensor rows_at(std::size_t slice, const Tensor& rows, std::size_t versions_back) const;
  bool can_answer(const Pull& message, const Named& wanted) const;
  void answer(const Pull& message, const Named& wanted, TrainingOutbox& out);
  void release(TrainingOutbox& out);

  ShardOptions options_;
  std::vector<Owned> slices_;  // by id
  std::vector<Unit> units_;
  std::map<std::uint32_t, std::size_t> packs_;  // by id: in units_
  ShardStore& store_;
  std::uint64_t version_;
  UnitCounts counts_;
  // If kept: of the versions before version_, oldest first, what its next update changed in each slice.
  std::deque<std::vector<KeptValue>> previous_;
  SlotStage slots_;
  BatchStage batches_;
  ShardLedger ledger_;
  // Asynchronous, by phase: the sets of the next update, by turn, and the number of updates.
  std::vector<std::vector<std::pair<std::uint64_t, GradientSet>>> accumulated_;
  std::vector<std::uint64_t> updates_;
  std::vector<Pull> parked_;                    // in order of arrival
  std::multimap<std::uint64_t, TakeCut> cuts_;  // waiting, by version
  Error failure_;
  ShardCounters counters_;
};

}  // namespace troupe
