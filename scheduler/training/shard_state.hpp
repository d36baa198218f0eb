// The training protocol of one parameter shard: stages pushed gradients, applies them, and answers pulls.
//
//   synchronous, bounded_staleness: gradients are staged by (step, slot, slice). A slice of which all slots of
//   step `version` have come gets mean_of its N gradients in slot order, once, while others still arrive. When
//   all have, the version becomes step + 1. So the result depends neither on who computed a slot nor on when
//   it came. With backup slots a step has more than N, and waits for the coordinator's Commit, which names N of them.
//   asynchronous: the gradients of one batch of one worker are applied together when all have come, never
//   twice. Not before: the rest of a batch may never come, and what was applied cannot be taken back.
//
// All slices move from version to version together: no reader can see half an update.
// Values are handles of tensors that never change. A message that is not accepted leaves the state untouched:
// repeated or late ones are dropped, counted and no error; wrong ones are refused, counted, and the Error
// returned is for their sender.
//
// Not thread-safe: one actor owns it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <troupe/scheduler/training/batch_set.hpp>
#include <troupe/scheduler/training/gradient.hpp>
#include <troupe/scheduler/training/outgoing.hpp>
#include <troupe/scheduler/training/shard_ledger.hpp>
#include <troupe/scheduler/training/staging.hpp>
#include <troupe/scheduler/waits/wait_graph.hpp>

namespace troupe {

struct Update {
  PushedGradient gradient;
  std::uint64_t step = 0;  // 1 for the first update: Adam's t
  double rate_scale = 1;   // multiplies the learning rate
};

// The values of a shard's slices and the kernels that update them.
class ShardStore {
 public:
  virtual ~ShardStore() = default;
  // The current value of a slice. What the handle shows never changes: apply must not write to memory that
  // anyone else holds.
  virtual Tensor value(std::uint32_t slice) = 0;
  // Updates a slice and its optimizer slots. An exception fails the shard.
  virtual void apply(std::uint32_t slice, const Update& update) = 0;
};

// Each can be left out by tests, which show that they notice.
struct ShardGuards {
  bool dedupe = true;       // a gradient of a slot, or a batch, counts once
  bool stale = true;        // a gradient of an earlier step is dropped; else it is taken for one of this
  bool versions = true;     // a gradient was computed on the version of its step
  bool fence = true;        // a push or pull is from a member
  bool own_updates = true;  // asynchronous: who pulls sees what it has pushed before
  bool commit = true;       // the coordinator chooses among backup slots; else the shard takes the first
};

struct ShardOptions {
  TrainingMode mode = TrainingMode::synchronous;
  std::uint32_t shard = 0;      // its index
  std::uint32_t workers = 1;    // worker indices are below it
  std::uint32_t slots = 1;      // N; 1 if asynchronous
  std::uint32_t backups = 0;    // slots of a step beyond N; not asynchronous
  std::uint64_t staleness = 0;  // bounded_staleness only
  SparseMean sparse_mean = SparseMean::all_slots;
  std::uint64_t version = 0;  // of the values at the start
  BatchSet applied;           // asynchronous: what is in these values
  // Synchronous: the values before the last update are kept, and pulls that ask for exactly that version get
  // them. Needed where tokens of lost workers are reassigned: the new worker may find one shard a step ahead
  // of another, and must see what its predecessor saw. Costs the memory of the values once more, and twice
  // while an update is under way. Without it a pull of a slice that was updated already waits for the version.
  bool keep_previous = true;
  std::uint32_t keep_versions = 1;  // so many of them: one more than steps are handed out ahead (JobOptions::lookahead)
  // Asynchronous: this many batches make one update, their mean. Those left at the end of the training are
  // not applied.
  std::uint32_t accumulate = 1;
  // Asynchronous: scale the learning rate by 1 / staleness (Zhang et al., "Staleness-aware Async-SGD", IJCAI
  // 2016).
  bool scale_by_staleness = false;
  // Asynchronous: a worker may have begun this many batches on the shard without completing one.
  std::size_t max_open_batches = 16;
  // So many of the last versions know what went into them.
  std::size_t provenance = 1024;
  bool keep_history = false;  // of all versions, for take_history()
  // More parked pulls than this are refused.
  std::size_t max_parked = 1 << 16;
  ShardGuards guards;
};

struct ShardCounters {
  std::uint64_t pulls = 0;        // answered, at once or later
  std::uint64_t parked = 0;       // of these, had to wait
  std::uint64_t pushes = 0;       // staged
  std::uint64_t duplicates = 0;   // dropped: already staged, or the batch already applied
  std::uint64_t stale = 0;        // dropped: of a step below the version
  std::uint64_t uncommitted = 0;  // dropped: of a slot that its step did not use
  std::uint64_t fenced = 0;       // dropped: pushes and pulls of those who are members no more
  std::uint64_t refused = 0;      // wrong; an Error was returned
  std::uint64_t abandoned = 0;    // gradient sets dropped because their worker was lost
  std::uint64_t batches = 0;      // slots or batches that went into updates
  std::uint64_t updates = 0;
  std::uint64_t staged_bytes = 0;  // now
  std::uint64_t staged_bytes_peak = 0;
  // [s]: slots or batches computed s updates before the one they went into; the last bucket: that or more.
  std::array<std::uint64_t, 16> staleness{};
};

// What the next version waits for.
struct ShardWait {
  std::uint64_t version = 0;
  std::uint32_t have = 0;  // slots (asynchronous: accumulated batches)
  std::uint32_t need = 0;
  std::vector<std::uint32_t> missing;  // slots; at most the first 16
  bool uncommitted = false;            // backups: the slots of the step are not chosen yet
  std::size_t parked = 0;              // pulls that wait for it
  std::uint64_t highest_wanted = 0;    // the highest min_version among them
  std::string to_string() const;       // "version 7: 1 of 2 staged, missing slots 1; 3 pulls wait, for up to version 8"
};

class ShardState {
 public:
  // `store` must outlive the object. Throws invalid_argument for options that contradict each other, a slice
  // twice, or a dtype that has no gradients.
  ShardState(const ShardOptions& options, std::vector<SliceSpec> slices, ShardStore& store);

  // Stages a gradient, and applies what has become complete. Says Staged to the coordinator when the
  // micro-batch is whole, and Put to workers whose pulls have become answerable. Errors: invalid_argument
  // (unknown slice, worker or slot; gradient of another dtype or shape; computed on a version not allowed),
  // out_of_range (step or batch too far ahead), resource_exhausted (too many open batches), and failure().
  [[nodiscard]] Error push(Push message, TrainingOutbox& out);
  // Names the slots that a step uses. Errors: failed_precondition (there are no backups, or the step used others),
  // invalid_argument (slots that cannot be), out_of_range (a step too far ahead), and failure().
  [[nodiscard]] Error commit(const Commit& message, TrainingOutbox& out);
  // What its worker has sent before is forgotten like that of a lost one, and dropped when it comes. A push or pull
  // from a later view does the same.
  void fence(const Fence& message);
  // Answers with a Put, now or when the version is there. Errors: invalid_argument, resource_exhausted,
  // failure().
  [[nodiscard]] Error pull(const Pull& message, TrainingOutbox& out);
  // Calls `take` when the values in the store are those of exactly `version`, now or as soon as they are, and nothing
  // is applied before it returns. Asynchronous: of any version, and no batch is half in it. What take() reads are
  // handles: training goes on while they are written somewhere. Errors: failed_precondition (the version has passed, or
  // a part of it), resource_exhausted (many wait already), and failure(). What still waits when the shard fails is
  // never called.
  struct Cut {
    std::uint64_t version = 0;
    BatchSet applied;  // asynchronous: the batches that are in these values
  };
  using TakeCut = std::function<void(const Cut&)>;
  [[nodiscard]] Error cut(std::uint64_t version, TakeCut take);
  // Drops the parked pulls of a lost worker and its incomplete batches. Whole slots stay: they are as good as
  // any.
  void worker_down(std::uint32_t worker);
  // Ends everything: parked pulls are answered with the error, later messages return it.
  void fail(const Error& error, TrainingOutbox& out);

  std::uint64_t version() const { return version_; }
  Cut cut() const { return {version_, ledger_.applied()}; }  // of now
  // Set by fail() or by an update that threw; the values are then not to be used.
  const Error& failure() const { return failure_; }
  const ShardCounters& counters() const { return counters_; }
  ShardWait waiting() const;
  // The same as things and waits (wait_graph.hpp), of the shard of `task` in `job`. Nothing if nobody waits.
  Waiting waiting(std::uint64_t job, const std::string& task) const;
  // What went into a version, or came for it and did not. Null: it is none of the last ShardOptions::provenance.
  const Provenance* provenance(std::uint64_t version) const { return ledger_.find(version); }
  // The same of all versions, since the last call: what has come for an earlier one since then is of that version
  // again. To be called every ShardOptions::provenance versions at least, what is older is lost. `all`: also what has
  // come for the next.
  std::vector<Provenance> take_history(bool all) { return ledger_.take_history(all ? ~std::uint64_t{0} : version_); }

 private:
  struct Owned {
    SliceSpec spec;
    std::optional<bool> sparse;  // the form of its gradients, fixed by the first
    bool updated = false;        // the store has it at version_ + 1 already
    Tensor current;              // if so: its value at version_, if kept
  };

  Error refuse(Error error);
  Error check(const Push& message, std::size_t& slice) const;
  Error find_slice(std::uint32_t id, std::size_t& slice) const;
  Error push_slot(Push& message, std::size_t slice, TrainingOutbox& out);
  Error push_batch(Push& message, std::size_t slice, TrainingOutbox& out);
  Error check_pulled_version(const Push& message) const;
  Error check_commit(const Commit& message) const;
  bool is_fenced(std::uint32_t worker, std::uint64_t view);
  void drop(const Push& message, Fate fate);
  void advance(TrainingOutbox& out);
  void choose_alone(std::size_t slice);
  void stage(GradientSet& set, Push& message, std::size_t slice);
  void update_slice(std::size_t slice, std::vector<PushedGradient> gradients, double rate_scale, TrainingOutbox& out);
  void update_early(std::size_t slice, TrainingOutbox& out);
  void update_batches(TrainingOutbox& out);
  void publish(std::size_t batches);
  void take_cuts();
  const std::vector<Tensor>* previous(std::uint64_t version) const;
  double note_staleness(const std::vector<std::uint64_t>& pulled_versions);
  void say_staged(const Push& message, TrainingOutbox& out) const;
  bool can_answer(const Pull& message, std::size_t slice) const;
  void answer(const Pull& message, std::size_t slice, TrainingOutbox& out);
  void release(TrainingOutbox& out);

  ShardOptions options_;
  std::vector<Owned> slices_;  // by id
  ShardStore& store_;
  std::uint64_t version_;
  std::deque<std::vector<Tensor>> previous_;  // the values of the versions before version_, if kept; the oldest first
  SlotStage slots_;
  BatchStage batches_;
  ShardLedger ledger_;
  std::vector<std::pair<std::uint64_t, GradientSet>> accumulated_;  // asynchronous: batches for the next update
  std::vector<Pull> parked_;                                        // in the order they came
  std::multimap<std::uint64_t, TakeCut> cuts_;                      // that wait, by their version
  Error failure_;
  ShardCounters counters_;
};

}  // namespace troupe
