// The coordinator of a training job: membership, the assignment of work, and the end of epochs and of the job.
//
//   joining ── enough joined ─────▶ training ── every token complete ──▶ evaluating ── all counted ──┐
//                                      ▲                                                             │
//                                      └────────────────── EpochDone, next epoch ────────────────────┤
//   finished ◀── all workers are in the barrier ── finishing ◀───────── EpochDone, after the last ───┘
//
//   failed: from any stage, with JobFailed to everyone
//
// Workers request work with TakeToken and get a Token as soon as one is available. A worker may request tokens ahead;
// it gets them only while no other worker holds fewer, so that the slots of a step are spread evenly. Repeated messages
// are dropped and counted. Invalid ones are refused and counted, change nothing, and return an Error for the sender.
//
// With backup slots a turn has more tokens than it needs: it uses the first N that are reported and whole on every
// shard. Commit names them to the shards, and the commit log records them. Workers that still hold another token of the
// turn get the same Commit: they may report the token uncomputed. Its pulls are answered with any available version,
// its pushes are dropped.
//
// An epoch whose number of steps is unknown ends before the first step of which a worker reports that the data is over.
//
// JobMembers keeps the membership, SaveRounds schedules checkpoints. The coordinator keeps stages and tokens, and
// decides how joins, losses and saves affect them.
//
// Not thread-safe: one actor owns it. Times are steady-clock nanoseconds.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/scheduler/data/data_places.hpp>
#include <troupe/scheduler/training/job_members.hpp>
#include <troupe/scheduler/training/job_options.hpp>
#include <troupe/scheduler/training/job_state.hpp>
#include <troupe/scheduler/training/outgoing.hpp>
#include <troupe/scheduler/training/save_rounds.hpp>
#include <troupe/scheduler/training/token_book.hpp>
#include <troupe/scheduler/waits/wait_graph.hpp>

namespace troupe {

class Coordinator {
 public:
  enum class Stage : std::uint8_t { joining, training, evaluating, finishing, finished, failed };

  // Throws invalid_argument for contradictory options.
  Coordinator(JobOptions options, Nanoseconds now);

  // Errors of the following: invalid_argument (impossible index, token or figure), failed_precondition (the sender has
  // not joined, or may not do this now), and failure() if the job has failed.
  [[nodiscard]] Error join(const Join& message, Nanoseconds now, TrainingOutbox& out);
  [[nodiscard]] Error take_token(const TakeToken& message, Nanoseconds now, TrainingOutbox& out);
  [[nodiscard]] Error token_done(const TokenDone& message, Nanoseconds now, TrainingOutbox& out);
  [[nodiscard]] Error staged(const Staged& message, Nanoseconds now, TrainingOutbox& out);
  [[nodiscard]] Error barrier(const Barrier& message, Nanoseconds now, TrainingOutbox& out);
  [[nodiscard]] Error saved(const Saved& message);
  // Call after each of the other calls. Tells the shards to save when a save is due, and lets the job end once the last
  // checkpoint is written. See SaveRounds for `writer_busy`, the events and written().
  void save_when_due(bool writer_busy, Nanoseconds now, TrainingOutbox& out);
  std::vector<SaveEvent> take_saves() { return saves_.take_events(); }
  void written() { saves_.written(); }
  // A step that no shard reaches before at least one more has been handed out and trained; at most the last, if known.
  std::uint64_t step_ahead() const;

  // Handles a worker or shard that gives up. Before training begins it may join again; afterwards it is lost. One that
  // is stopped by its user (code cancelled) works on until it hears that the job has failed. If the job could not go on
  // without it, and saves checkpoints, the job first saves once more. Ignored unless the sender is the current member.
  void leave(const Leave& message, Nanoseconds now, TrainingOutbox& out);
  // Handles the loss of a worker. Deliver no message of this incarnation afterwards.
  void worker_down(std::uint32_t worker, std::string_view reason, Nanoseconds now, TrainingOutbox& out);
  // Marks a worker as suspect (silent for a while), or as heard from again. It stays a member.
  void suspect(std::uint32_t worker, bool suspect);
  void shard_down(std::uint32_t shard, std::string_view reason, TrainingOutbox& out);
  // Call at deadline() or later. `explain` returns text to append to the error of a job that times out, or nullopt to
  // keep the job from failing in this call. Null appends nothing.
  using Explain = std::function<std::optional<std::string>()>;
  void tick(Nanoseconds now, TrainingOutbox& out, const Explain& explain = nullptr);
  std::optional<Nanoseconds> deadline() const;
  // Fails the job: sends JobFailed to everyone.
  void fail(Error error, TrainingOutbox& out);

  Stage stage() const { return stage_; }
  bool finished() const { return stage_ == Stage::finished; }
  const Error& failure() const { return failure_; }
  JobCounters counters() const;
  const CommitLog& commits() const { return commits_; }
  // The job's state after its last step.
  JobState end_state() const;
  // From which the training data of the steps that are not complete may be read.
  DataPlace place() const;
  // The job's state for a checkpoint after `step` steps, once these are complete; kept for the last 64. Asynchronous:
  // the latest state, for any step. Get and keep it before telling the shards to save.
  std::optional<JobState> state(std::uint64_t step) const;
  // Forwarded to JobMembers.
  std::uint64_t view() const { return members_.view(); }
  std::uint64_t view_of(const Join& message) const { return members_.view_of(message); }
  std::uint32_t chief() const { return members_.chief(); }
  std::vector<MembershipEvent> take_events() { return members_.take_events(); }
  std::string members() const { return members_.to_string(); }
  // 0: unknown.
  std::uint64_t steps_per_epoch() const {
    return options_.steps_per_epoch == JobOptions::kUnknown ? 0 : options_.steps_per_epoch;
  }
  std::string waits_for() const;  // "joins of /job:worker/task:1"; "" if nothing
  // The same as things and waits (wait_graph.hpp), plus the waits of workers that request a token.
  Waiting waiting(std::uint64_t job, Nanoseconds now) const;
  struct Member {
    std::uint32_t worker = 0;
    std::string_view state;          // "expected", "joined", "suspect", "in barrier", "lost"
    std::vector<TokenPlace> tokens;  // not yet reported
  };
  std::vector<Member> list_members() const;
  const JobOptions& options() const { return options_; }
  std::uint32_t epoch() const { return epoch_; }  // from 0

 private:
  void end_joining(Nanoseconds now, TrainingOutbox& out, const Explain& explain);
  void fail_late(std::string text, TrainingOutbox& out, const Explain& explain);
  std::string missing() const;
  struct Request {
    std::uint32_t worker = 0;
    std::uint64_t number = 0;
  };

  Error refuse(Code code, std::string text);
  bool admits(std::uint32_t worker, std::uint64_t view, Error& error, TrainingOutbox& out);
  std::uint32_t tokens() const { return options_.slots + options_.backups; }  // per turn
  Error count(TokenBook::Note note, std::string_view what, Nanoseconds now);
  void lose(std::uint32_t worker, const Error& why, Nanoseconds now, TrainingOutbox& out);
  void forget_requests(std::uint32_t worker);
  void tell_figures(std::uint32_t worker, TrainingOutbox& out);
  Error join_shard(const Join& message, TrainingOutbox& out);
  bool ends_job(const Leave& message) const;
  void leave_shard(const Leave& message, std::string_view reason, Nanoseconds now, TrainingOutbox& out);
  void cannot_begin(const Error& why);
  bool is_turned_away(const Join& message, Error& error, TrainingOutbox& out);
  void begin_when_joined(Nanoseconds now, TrainingOutbox& out);
  void begin(Nanoseconds now, TrainingOutbox& out);
  std::uint64_t last_step() const;
  void check_resume() const;
  void note_state(std::uint64_t step, const TokenBook::Figures& figures, Nanoseconds now);
  void begin_training(Nanoseconds now);
  void advance(Nanoseconds now, TrainingOutbox& out);
  void end_training(Nanoseconds now, TrainingOutbox& out);
  void end_epoch(Nanoseconds now, TrainingOutbox& out);
  void serve(TrainingOutbox& out);
  void serve_unasked(TrainingOutbox& out);
  Token finish_token() const;
  std::optional<std::uint32_t> fewest_held() const;  // worker; among those with a token available
  std::deque<Request>::iterator next_request();
  void open_barrier_when_full(TrainingOutbox& out);
  void say_joins(class JobWaits& say) const;
  void say_tokens(class JobWaits& say, Nanoseconds now) const;
  void say_barrier(class JobWaits& say) const;
  void say_save(class JobWaits& say) const;
  void say_requests(class JobWaits& say, const std::vector<TokenBook::Open>& open) const;

  JobOptions options_;
  Stage stage_ = Stage::joining;
  Nanoseconds created_ = 0;
  Nanoseconds next_word_ = 0;  // time of the next log line about missing members
  Nanoseconds progress_ = 0;   // time of the last progress
  Nanoseconds started_ = 0;    // start of training
  Nanoseconds epoch_started_ = 0;
  JobMembers members_;
  std::deque<Request> requests_;             // parked, in order of arrival
  std::vector<std::uint64_t> last_request_;  // of each worker, since it joined
  TokenBook book_;
  std::uint32_t epoch_ = 0;
  std::uint64_t epoch_step_ = 0;         // its first step
  std::vector<std::uint64_t> versions_;  // reported, by position in options_.shards
  EpochDone figures_;                    // of the current epoch
  EpochDecisions decisions_;
  Error failure_;
  JobCounters counters_;
  CommitLog commits_;
  DataPlaces places_;
  std::map<std::uint64_t, JobState> states_;  // by step; without commits
  SaveRounds saves_;
  std::string stopped_;            // the member that was stopped, so that the job ends; "": none
  std::vector<EpochDone> untold_;  // not sent yet: there was no worker
};

std::string_view name(Coordinator::Stage stage);

}  // namespace troupe
