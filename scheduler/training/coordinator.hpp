// The coordinator of a training job: who takes part, who computes what, when an epoch and the job are over.
//
//   joining ── enough are there ──▶ training ── every token complete ──▶ evaluating ── all counted ──┐
//                                      ▲                                                             │
//                                      └────────────────── EpochDone, next epoch ────────────────────┤
//   finished ◀── all workers are in the barrier ── finishing ◀───────── EpochDone, after the last ───┘
//
//   failed: from any of them, with JobFailed to everyone
//
// Workers ask with TakeToken and get a Token when there is one. A worker may ask for tokens ahead of its work; it gets
// them when no other holds fewer, so that the slots of a step are shared out evenly. Repeated messages are dropped and
// counted; wrong ones are refused and counted, change nothing, and the Error returned is for their sender.
//
// With backup slots a step has more tokens than it needs: the first N that are whole on every shard and reported are
// used, as Commit tells the shards, and the log of commits says. A worker that still holds another is told by the same
// Commit: it may report it without having computed it. A pull of it is answered with whatever version there is, its
// push is dropped.
//
// Who takes part is decided by JobMembers, when checkpoints are written by SaveRounds: the coordinator keeps phases and
// tokens, and says what joins, losses and saves mean for them.
//
// Not thread-safe: one actor owns it. Times are of a steady clock, in nanoseconds.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

  // Throws invalid_argument for options that contradict each other or leave an epoch without a step.
  Coordinator(JobOptions options, Nanoseconds now);

  // Errors of all of these: invalid_argument (an index, token or figure that cannot be), failed_precondition
  // (the sender has not joined, or may not do this now), and failure() of a failed job.
  [[nodiscard]] Error join(const Join& message, Nanoseconds now, TrainingOutbox& out);
  [[nodiscard]] Error take_token(const TakeToken& message, Nanoseconds now, TrainingOutbox& out);
  [[nodiscard]] Error token_done(const TokenDone& message, Nanoseconds now, TrainingOutbox& out);
  [[nodiscard]] Error staged(const Staged& message, Nanoseconds now, TrainingOutbox& out);
  [[nodiscard]] Error barrier(const Barrier& message, Nanoseconds now, TrainingOutbox& out);
  [[nodiscard]] Error saved(const Saved& message);
  // To be called after each of the others: has the shards save when that is due, and lets the job end when the last
  // checkpoint is written. `writer_busy`, what to do with the events, written(): see SaveRounds.
  void save_when_due(bool writer_busy, Nanoseconds now, TrainingOutbox& out);
  std::vector<SaveEvent> take_saves() { return saves_.take_events(); }
  void written() { saves_.written(); }
  // A version that no shard can have before at least one step has been handed out and trained from now on; at most the
  // final one.
  std::uint64_t version_ahead() const;

  // A worker or shard gives up. Before training begins it may join again; afterwards it is lost. Ignored if it is not
  // the one that has joined.
  void leave(const Leave& message, Nanoseconds now, TrainingOutbox& out);
  // Nothing that this incarnation of the worker sent may be delivered later.
  void worker_down(std::uint32_t worker, std::string_view reason, Nanoseconds now, TrainingOutbox& out);
  // Nothing has been heard of the worker for a while; or something has again. It stays a member.
  void suspect(std::uint32_t worker, bool suspect);
  void shard_down(std::uint32_t shard, std::string_view reason, TrainingOutbox& out);
  // To be called at deadline() or later. `explain`: what to add to the error of a job that is late; none yet: it does
  // not fail in this call. Null: nothing.
  using Explain = std::function<std::optional<std::string>()>;
  void tick(Nanoseconds now, TrainingOutbox& out, const Explain& explain = nullptr);
  std::optional<Nanoseconds> deadline() const;
  // Ends the job: JobFailed to everyone.
  void fail(Error error, TrainingOutbox& out);

  Stage stage() const { return stage_; }
  bool finished() const { return stage_ == Stage::finished; }
  const Error& failure() const { return failure_; }
  JobCounters counters() const;
  const CommitLog& commits() const { return commits_; }
  // At the end: where the job stands.
  JobState end_state() const;
  // Of a checkpoint of shards at this version (synchronous: the step that is next), once all before it is complete; of
  // the last 64 versions. Asynchronous: to be asked for, and kept, before the shards are told to save; any version is
  // the last.
  std::optional<JobState> state(std::uint64_t version) const;
  // Of JobMembers.
  std::uint64_t view() const { return members_.view(); }
  std::uint64_t view_of(const Join& message) const { return members_.view_of(message); }
  std::uint32_t chief() const { return members_.chief(); }
  std::vector<MembershipEvent> take_events() { return members_.take_events(); }
  std::string members() const { return members_.to_string(); }
  std::uint64_t steps_per_epoch() const { return options_.steps_per_epoch; }
  std::string waits_for() const;  // "joins of /job:worker/task:1"; "" if for nothing
  // The same as things and waits (wait_graph.hpp): what the job waits for, and what workers wait for that ask for a
  // token.
  Waiting waiting(std::uint64_t job, Nanoseconds now) const;
  struct Member {
    std::uint32_t worker = 0;
    std::string_view state;  // "expected", "joined", "suspect", "in barrier", "lost"
    std::vector<std::pair<std::uint64_t, std::uint32_t>> tokens;  // (step, slot) that it has not reported
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
  std::uint32_t tokens() const { return options_.slots + options_.backups; }  // of a step
  Error count(TokenBook::Note note, std::string_view what, Nanoseconds now);
  void lose(std::uint32_t worker, const Error& why, Nanoseconds now, TrainingOutbox& out);
  void forget_requests(std::uint32_t worker);
  void tell_figures(std::uint32_t worker, TrainingOutbox& out);
  Error join_shard(const Join& message, TrainingOutbox& out);
  void leave_shard(const Leave& message, std::string_view reason, Nanoseconds now, TrainingOutbox& out);
  void cannot_begin(const Error& why);
  bool is_turned_away(const Join& message, Error& error, TrainingOutbox& out);
  void begin_when_joined(Nanoseconds now, TrainingOutbox& out);
  void begin(Nanoseconds now, TrainingOutbox& out);
  std::uint64_t first_step_of(std::uint32_t epoch) const {
    return options_.first_step + epoch * options_.steps_per_epoch;
  }
  void check_resume() const;
  void note_state(std::uint64_t step, const TokenBook::Figures& figures, Nanoseconds now);
  void begin_training(Nanoseconds now);
  void advance(Nanoseconds now, TrainingOutbox& out);
  void end_training(Nanoseconds now);
  void end_epoch(Nanoseconds now, TrainingOutbox& out);
  void serve(TrainingOutbox& out);
  void serve_unasked(TrainingOutbox& out);
  Token finish_token() const;
  std::optional<std::uint32_t> fewest_held() const;  // of those for whom there is a token
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
  Nanoseconds next_word_ = 0;  // about those who have not joined
  Nanoseconds progress_ = 0;   // when there was some
  Nanoseconds started_ = 0;    // of the job's training
  Nanoseconds phase_started_ = 0;
  JobMembers members_;
  std::deque<Request> requests_;             // parked, in the order they came
  std::vector<std::uint64_t> last_request_;  // of each worker, since it joined
  TokenBook book_;
  std::uint32_t epoch_ = 0;
  std::vector<std::uint64_t> versions_;  // as options_.shards
  EpochDone figures_;                    // of the current epoch
  Error failure_;
  JobCounters counters_;
  CommitLog commits_;
  std::map<std::uint64_t, JobState> states_;  // without commits, by their step
  SaveRounds saves_;
  std::vector<EpochDone> untold_;  // nobody was there
};

std::string_view name(Coordinator::Stage stage);

}  // namespace troupe
