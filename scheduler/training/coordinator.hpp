// The coordinator of a training job: who takes part, who computes what, when an epoch and the job are over.
//
//   joining ── all expected workers are there ──▶ training ── every token complete ──▶ evaluating ── all
//   counted ─┐
//                                                    ▲────────────── EpochDone, next epoch
//                                                    ──────────────────────┤
//   finished ◀── all workers are in the barrier ── finishing ◀──────── EpochDone, after the last
//   ────────────────┘ failed: from any of them, with JobFailed to everyone
//
// Workers ask with TakeToken and get a Token when there is one. A worker may ask for tokens ahead of its work; it gets
// them when no other holds fewer, so that the slots of a step are shared out evenly. Repeated messages are dropped and counted;
// wrong ones are refused and counted, change nothing, and the Error returned is for their sender.
//
// With backup slots a step has more tokens than it needs: the first N that are whole on every shard and reported are used, as
// Commit tells the shards, and the log of commits says. A worker that still holds another is told by the same Commit: it may report
// it without having computed it. A pull of it is answered with whatever version there is, its push is dropped.
//
// Every join and loss of a worker makes a new view of the membership, with a number one higher. What a worker says carries the view
// in which it joined. If another incarnation has joined since, or it is lost, that is ignored and counted, and answered with a Fence.
//
// Not thread-safe: one actor owns it. Times are of a steady clock, in nanoseconds.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/training/outgoing.hpp"
#include "scheduler/training/token_book.hpp"

namespace troupe {

using Nanoseconds = std::int64_t;

struct JobOptions {
  TrainingMode mode = TrainingMode::synchronous;
  std::uint32_t workers = 1;          // expected; their indices are below it
  std::vector<std::uint32_t> shards;  // those that own at least one slice
  std::vector<std::uint32_t> joining;  // shards that must have joined before training begins
  std::uint32_t slots = 1;            // N; 1 if asynchronous
  std::uint32_t backups = 0;          // tokens of a step beyond N; not asynchronous
  std::shared_ptr<const CommitLog> commits;  // backups: the steps in it use these slots again
  std::uint64_t staleness = 0;        // bounded_staleness only
  std::uint32_t epochs = 1;
  std::uint64_t batch = 1;            // examples of a slot
  std::uint64_t steps_per_epoch = 0;  // 0: as many as there are examples for
  std::uint64_t train_examples = 0;
  std::uint64_t test_examples = 0;  // 0: no evaluation
  std::uint64_t evaluation_chunk = 1000;
  std::uint64_t first_step = 0;  // version of the shards at the start
  std::uint64_t fingerprint = 0;
  std::string settings;  // see Join
  Nanoseconds join_timeout = 60'000'000'000;
  // After that: how long nothing may be reported, staged or joined. 0: for ever.
  Nanoseconds step_timeout = 0;
  // What the loss of a worker does. reassign: its tokens go to others, and it may join again with a new
  // incarnation. Tokens of a step are then handed out only when the step before (with staleness, the one it
  // can start from) is complete: a worker that waits for a version cannot take what a lost one left behind.
  // Shards need keep_previous.
  enum class OnLoss : std::uint8_t { fail, reassign } on_loss = OnLoss::fail;
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
};

// A checkpoint on its way: what shards have answered to Save.
struct SaveRound {
  std::uint64_t version = 0;
  std::map<std::uint32_t, Saved> shards;
  Error error;            // the first of them
  bool complete = true;  // all have answered
};

class Coordinator {
 public:
  enum class Stage : std::uint8_t { joining, training, evaluating, finishing, finished, failed };

  // Throws invalid_argument for options that contradict each other or leave an epoch without a step.
  Coordinator(JobOptions options, Nanoseconds now);

  // Errors of all of these: invalid_argument (an index, token or figure that cannot be), failed_precondition
  // (the sender has not joined, or may not do this now), and failure() of a failed job.
  [[nodiscard]] Error join(const Join& message, Nanoseconds now, TrainingOutbox& out);
  [[nodiscard]] Error take_token(const TakeToken& message, Nanoseconds now, TrainingOutbox& out);
  [[nodiscard]] Error token_done(const TokenDone& message, Nanoseconds now, TrainingOutbox& out);
  [[nodiscard]] Error staged(const Staged& message, Nanoseconds now, TrainingOutbox& out);
  [[nodiscard]] Error barrier(const Barrier& message, Nanoseconds now, TrainingOutbox& out);

  // Has all shards save what they have at `version`, which none has passed (asynchronous mode: now). failed_precondition: the
  // last save is not complete, or nothing is trained now.
  [[nodiscard]] Error save(std::uint64_t version, TrainingOutbox& out);
  [[nodiscard]] Error saved(const Saved& message);
  const SaveRound& last_save() const { return save_; }

  // A worker or shard gives up. Before training begins it may join again; afterwards it is lost. Ignored if it is not the one
  // that has joined.
  void leave(const Leave& message, Nanoseconds now, TrainingOutbox& out);
  // Nothing that this incarnation of the worker sent may be delivered later.
  void worker_down(std::uint32_t worker, std::string_view reason, Nanoseconds now, TrainingOutbox& out);
  void shard_down(std::uint32_t shard, std::string_view reason, TrainingOutbox& out);
  // To be called at deadline() or later.
  void tick(Nanoseconds now, TrainingOutbox& out);
  std::optional<Nanoseconds> deadline() const;
  // Ends the job: JobFailed to everyone.
  void fail(Error error, TrainingOutbox& out);

  Stage stage() const { return stage_; }
  bool finished() const { return stage_ == Stage::finished; }
  const Error& failure() const { return failure_; }
  const JobCounters& counters() const { return counters_; }
  const CommitLog& commits() const { return commits_; }
  // The number of the view, and the one in which who has sent this Join is a member (0: none).
  std::uint64_t view() const { return view_; }
  std::uint64_t view_of(const Join& message) const;
  std::uint32_t chief() const;  // the lowest worker that is not lost
  std::uint64_t steps_per_epoch() const { return options_.steps_per_epoch; }
  std::string waits_for() const;  // "joins of /job:worker/task:1"; "" if for nothing

 private:
  std::string missing() const;
  enum class Presence : std::uint8_t { expected, joined, lost };
  struct Worker {
    Presence presence = Presence::expected;
    Incarnation incarnation;
    std::uint64_t last_request = 0;
    bool in_barrier = false;
    std::uint64_t view = 0;  // in which it joined
  };
  struct Request {
    std::uint32_t worker = 0;
    std::uint64_t number = 0;
  };

  Error refuse(Code code, std::string text);
  // Whether a message of this worker is to be handled; if not, `error` says why, or it is ignored.
  bool admits(std::uint32_t worker, std::uint64_t view, Error& error, TrainingOutbox& out);
  std::uint32_t tokens() const { return options_.slots + options_.backups; }  // of a step
  Error count(TokenBook::Note note, std::string_view what, Nanoseconds now);
  std::string describe(std::uint32_t worker) const;
  std::string list(Presence presence, bool outside_barrier) const;
  Error join_shard(const Join& message, TrainingOutbox& out);
  Error other_job(const Join& message, std::string who, TrainingOutbox& out);
  std::string not_joined() const;  // whom the beginning of the training waits for
  void begin_when_joined(Nanoseconds now, TrainingOutbox& out);
  void begin_training(Nanoseconds now);
  void advance(Nanoseconds now, TrainingOutbox& out);
  void end_training(Nanoseconds now);
  void end_epoch(Nanoseconds now, TrainingOutbox& out);
  void serve(TrainingOutbox& out);
  std::deque<Request>::iterator next_request();
  void open_barrier_when_full(TrainingOutbox& out);

  JobOptions options_;
  Stage stage_ = Stage::joining;
  Nanoseconds created_ = 0;
  Nanoseconds progress_ = 0;  // when there was some
  Nanoseconds started_ = 0;  // of the job's training
  Nanoseconds phase_started_ = 0;
  std::vector<Worker> workers_;
  std::map<std::uint32_t, Incarnation> shards_;  // that have joined; none of zero: it has left again
  std::deque<Request> requests_;  // parked, in the order they came
  TokenBook book_;
  std::uint32_t epoch_ = 0;
  std::vector<std::uint64_t> versions_;  // as options_.shards
  EpochDone figures_;                    // of the current epoch
  Error failure_;
  JobCounters counters_;
  CommitLog commits_;
  SaveRound save_;
  std::uint64_t view_ = 0;
};

std::string_view name(Coordinator::Stage stage);

}  // namespace troupe
