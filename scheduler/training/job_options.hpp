// The options of a training job, and what its coordinator counts.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/scheduler/training/commit_log.hpp>
#include <troupe/scheduler/training/job_state.hpp>
#include <troupe/scheduler/training/outgoing.hpp>

namespace troupe {

using Nanoseconds = std::int64_t;  // of a steady clock

struct JobOptions {
  TrainingMode mode = TrainingMode::synchronous;
  std::uint32_t workers = 1;  // expected; their indices are below it
  // Training begins once this many have joined; 0: all that are expected. The others may join at any time.
  std::uint32_t min_workers = 0;
  std::uint32_t max_workers = 0;       // more than are expected, with indices below this, may join at any time; 0: none
  std::vector<std::uint32_t> shards;   // those that own at least one slice
  std::vector<std::uint32_t> joining;  // shards that must have joined before training begins
  std::uint32_t slots = 1;             // N; 1 if asynchronous
  std::uint32_t backups = 0;           // tokens of a step beyond N; not asynchronous
  std::shared_ptr<const CommitLog> commits;  // backups: the steps in it use these slots again
  std::uint64_t staleness = 0;               // bounded_staleness only
  std::uint32_t epochs = 1;
  std::uint64_t batch = 1;            // examples of a slot
  std::uint64_t steps_per_epoch = 0;  // 0: as many as there are examples for
  std::uint64_t train_examples = 0;
  std::uint64_t test_examples = 0;  // 0: no evaluation
  std::uint64_t evaluation_chunk = 1000;
  std::uint64_t first_step = 0;    // version of the shards at the start
  std::optional<JobState> resume;  // where to go on; the shards are restored to the same checkpoint
  // Steps between checkpoints; 0: none are written. With them all workers stay in the barrier until the last is.
  std::uint64_t save_every = 0;
  std::uint64_t saved_version = 0;  // of the checkpoint that the job begins with; 0: none
  std::uint64_t fingerprint = 0;
  std::string settings;  // see Join
  // Then the job fails; or, if all were waited for, only workers are missing, and their loss does not end it, begins
  // without them.
  Nanoseconds join_timeout = 60'000'000'000;
  // After that: how long nothing may be reported, staged or joined. 0: for ever.
  Nanoseconds step_timeout = 0;
  // What the loss of a worker does: it ends the job; its tokens go to others; they are kept for it for `grace`, if it
  // joins again, and then go to others. With the last two anyone may join again with a new incarnation, also before the
  // old one is known to be lost. Tokens of a step are then handed out only when the step `lookahead` + 1 before (with
  // staleness, the one it can start from) is complete. Shards must keep lookahead + 1 versions.
  enum class OnLoss : std::uint8_t { fail, reassign, wait } on_loss = OnLoss::fail;
  Nanoseconds grace = 10'000'000'000;
  std::uint64_t lookahead = 0;
  // When all workers are lost: how long one may take to join, before the job fails. Not with OnLoss::fail.
  Nanoseconds empty_timeout = 0;
  // Why the job cannot begin. Told to everyone once all have joined, or at the join timeout: whoever came later would
  // wait for those that have gone. A task that joins with other settings is such a reason.
  Error refused;
  // Can be left out by tests, which show that they notice: a worker's message is of its last incarnation.
  bool fence = true;
};

struct JobCounters {
  std::uint64_t tokens = 0;    // handed out
  std::uint64_t returned = 0;  // of these, back because their worker was lost
  std::uint64_t repeated = 0;  // messages dropped: had been handled
  std::uint64_t refused = 0;   // messages that were wrong; an Error was returned
  std::uint64_t ignored = 0;   // messages of workers already lost
  std::uint64_t fenced = 0;    // messages of incarnations of which there is a later one
  std::uint64_t late = 0;      // reports on tokens of steps that had enough without them
  std::uint64_t steps = 0;     // complete
  std::uint64_t joins = 0;     // of workers
  std::uint64_t losses = 0;
};

}  // namespace troupe
