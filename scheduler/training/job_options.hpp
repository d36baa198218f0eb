// The options of a training job, and the counters of its coordinator.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/messages/nanoseconds.hpp>
#include <troupe/scheduler/training/commit_log.hpp>
#include <troupe/scheduler/training/epoch_control.hpp>
#include <troupe/scheduler/training/job_state.hpp>
#include <troupe/scheduler/training/outgoing.hpp>
#include <troupe/scheduler/training/token_book.hpp>

namespace troupe {

struct JobOptions {
  TrainingMode mode = TrainingMode::synchronous;
  std::uint32_t workers = 1;  // expected, with indices below this
  // Training begins once this many workers have joined; 0: all expected ones. The others may join at any time.
  std::uint32_t min_workers = 0;
  std::uint32_t max_workers = 0;      // additional workers, with indices below this, may join at any time; 0: none
  std::vector<std::uint32_t> shards;  // those that own at least one slice
  std::uint32_t phases = 1;           // of a step
  std::vector<std::vector<std::uint32_t>> phase_shards;  // by phase: those with slices in it; empty: all, in each
  std::vector<std::uint32_t> joining;                    // shards that must have joined before training begins
  std::uint32_t slots = 1;                               // N; 1 if asynchronous
  std::uint32_t backups = 0;                             // tokens per turn beyond N; not asynchronous
  std::shared_ptr<const CommitLog> commits;              // backups: turns in this log use the same slots again
  std::uint64_t staleness = 0;                           // bounded_staleness only; in steps
  std::uint32_t epochs = 1;
  std::uint64_t batch = 1;  // most examples per slot
  // Steps of an epoch, and batches of an evaluation; kUnknown: until the data ends, which a worker reports.
  static constexpr std::uint64_t kUnknown = TokenPlan::kUnknownSteps;
  std::uint64_t steps_per_epoch = 1;
  std::uint64_t evaluation_batches = 0;  // 0: no evaluation
  std::uint64_t evaluation_batch = 1;    // most examples of one
  std::optional<JobState> resume;        // state to resume from; shards are restored to the same checkpoint
  // Steps between checkpoints; 0: none. With checkpoints, all workers stay in the barrier until the last is written.
  std::uint64_t save_every = 0;
  std::uint64_t saved_step = 0;  // of the checkpoint the job starts from; 0: none
  std::uint64_t fingerprint = 0;
  std::string settings;  // see Join
  // After this the job fails or, if min_workers is 0, only workers are missing and a loss does not end the job, begins
  // without them.
  Nanoseconds join_timeout = 60'000'000'000;
  // Once training has begun: maximum time without a report, a staged token or a join; 0: no limit.
  Nanoseconds step_timeout = 0;
  // The effect of losing a worker. fail: ends the job. reassign: its tokens go to others. wait: its tokens are kept for
  // its next incarnation for `grace`, then go to others. With the last two a worker may join again with a new
  // incarnation, even before the old one is known to be lost; tokens of a turn are handed out only when the turn
  // `lookahead` + 1 (and the staleness) earlier is complete, and shards must keep lookahead + 1 versions.
  enum class OnLoss : std::uint8_t { fail, reassign, wait } on_loss = OnLoss::fail;
  Nanoseconds grace = 10'000'000'000;
  std::uint64_t lookahead = 0;
  // When all workers are lost: time for one to join before the job fails. Not with OnLoss::fail.
  Nanoseconds empty_timeout = 0;
  // Why the job cannot begin, for example because a task joined with other settings. Sent to everyone once all have
  // joined, or at the join timeout: otherwise tasks that join later would wait for those that have left.
  Error refused;
  EpochControl control;  // null: each epoch is followed by the next, until the last
  // Guards that tests disable to prove that they detect their absence: a worker's messages must be from its last
  // incarnation; asynchronous: a phase is handed out when the one before is complete.
  bool fence = true;
  bool phases_in_order = true;
};

struct JobCounters {
  std::uint64_t tokens = 0;    // handed out
  std::uint64_t returned = 0;  // of these, returned because their worker was lost
  std::uint64_t repeated = 0;  // messages dropped: already handled
  std::uint64_t refused = 0;   // invalid messages; an Error was returned
  std::uint64_t ignored = 0;   // messages of workers already lost
  std::uint64_t fenced = 0;    // messages of superseded incarnations
  std::uint64_t late = 0;      // reports for tokens that their step did not need
  std::uint64_t steps = 0;     // complete
  std::uint64_t joins = 0;     // of workers
  std::uint64_t losses = 0;
};

}  // namespace troupe
