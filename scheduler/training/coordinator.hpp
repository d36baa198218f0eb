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
// Every join and loss of a worker makes a new view of the membership, with a number one higher. What a worker says
// carries the view in which it joined. If another incarnation has joined since, or it is lost, that is ignored and
// counted, and answered with a Fence.
//
// Not thread-safe: one actor owns it. Times are of a steady clock, in nanoseconds.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/scheduler/training/job_state.hpp>
#include <troupe/scheduler/training/outgoing.hpp>
#include <troupe/scheduler/training/token_book.hpp>
#include <troupe/scheduler/waits/wait_graph.hpp>

namespace troupe {

using Nanoseconds = std::int64_t;

struct JobOptions {
  TrainingMode mode = TrainingMode::synchronous;
  std::uint32_t workers = 1;  // expected; their indices are below it
  // Training begins when so many have joined; 0: all that are expected. The others may join at any time.
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
  // At the end all are kept in the barrier until let_end().
  bool held = false;
  // Why the job cannot begin. Told to everyone once all have joined, or at the join timeout: whoever came later would
  // wait for those that have gone. A task that joins with other settings is such a reason.
  Error refused;
  // Can be left out by tests, which show that they notice: a worker's message is of its last incarnation.
  bool fence = true;
};

// What happened to the members of a job.
struct MembershipEvent {
  enum class Kind : std::uint8_t {
    waits,      // training has not begun for a while: for whom
    began,      // training
    joined,     // also: again
    used,       // the first token of one that has joined is done; since it joined
    suspected,  // nothing has been heard of it for a while
    heard,      // of one that was suspected
    lost,
    went_on,  // the first step is complete after a loss; since then
    fenced,   // a message of one that is no member any more was refused: the first since it was lost, or joined again
  };
  Kind kind = Kind::began;
  std::optional<std::uint32_t> worker;
  std::uint64_t step = 0;  // that is next to be complete
  Nanoseconds took = 0;
  std::string text;  // for people; "": they need not know
};
std::string_view name(MembershipEvent::Kind kind);

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

// A checkpoint on its way: what shards have answered to Save.
struct SaveRound {
  std::uint64_t version = 0;
  std::map<std::uint32_t, Saved> shards;
  Error error;           // the first of them
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

  // Has all shards save what they have at `version`, which none has passed (asynchronous mode: now).
  // failed_precondition: the last save is not complete, or nothing is trained now.
  [[nodiscard]] Error save(std::uint64_t version, TrainingOutbox& out);
  // A version that no shard can have before at least one step has been handed out and trained from now on; at most the
  // final one.
  std::uint64_t version_ahead() const;
  [[nodiscard]] Error saved(const Saved& message);
  const SaveRound& last_save() const { return save_; }
  void let_end(TrainingOutbox& out);  // JobOptions::held

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
  const JobCounters& counters() const { return counters_; }
  const CommitLog& commits() const { return commits_; }
  // At the end: where the job stands.
  JobState end_state() const;
  // Of a checkpoint of shards at this version (synchronous: the step that is next), once all before it is complete; of
  // the last 64 versions. Asynchronous: to be asked for, and kept, before the shards are told to save; any version is
  // the last.
  std::optional<JobState> state(std::uint64_t version) const;
  // The number of the view, and the one in which who has sent this Join is a member (0: none).
  std::uint64_t view() const { return view_; }
  std::uint64_t view_of(const Join& message) const;
  std::uint32_t chief() const;  // the lowest worker that has not been lost
  std::vector<MembershipEvent> take_events() { return std::exchange(events_, {}); }
  std::string members() const;  // "view 7: workers 0, 2 of 4; suspect: 2; lost: 1"
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
  enum class Presence : std::uint8_t { absent, expected, joined, lost };
  struct Worker {
    Presence presence = Presence::absent;
    Incarnation incarnation;
    std::uint64_t last_request = 0;
    bool in_barrier = false;
    std::uint64_t view = 0;  // in which it joined
    Nanoseconds joined = 0;  // when
    bool used = false;
    bool suspect = false;
    bool fenced = false;                    // and told
    std::deque<Incarnation> retired;        // the last before this one: what still comes of them joins nothing
    std::optional<Nanoseconds> kept_until;  // its tokens are, for its next incarnation
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
  static std::string describe(std::uint32_t worker);
  static std::string describe_shard(std::uint32_t shard);
  std::string list(Presence presence, bool outside_barrier) const;
  void admit(std::uint32_t worker, Incarnation incarnation, Nanoseconds now, TrainingOutbox& out);
  void lose(std::uint32_t worker, const Error& why, Nanoseconds now, TrainingOutbox& out);
  void release_kept(Nanoseconds now, TrainingOutbox& out);
  bool anyone() const;  // has joined and is not lost
  void note(MembershipEvent::Kind kind, std::optional<std::uint32_t> worker, Nanoseconds took = 0,
            std::string text = {});
  Error join_shard(const Join& message, TrainingOutbox& out);
  void cannot_begin(const Error& why);
  Error other_job(const Join& message, std::string who, TrainingOutbox& out);
  // Whom the beginning of the training waits for.
  std::size_t missing_workers() const;
  std::string missing_shards() const;
  std::string not_joined() const;  // both
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
  std::uint32_t members_now() const;                 // how many have joined and are not lost
  std::optional<std::uint32_t> fewest_held() const;  // of those for whom there is a token
  std::deque<Request>::iterator next_request();
  void open_barrier_when_full(TrainingOutbox& out);
  void say_joins(class JobWaits& say) const;
  void say_tokens(class JobWaits& say, Nanoseconds now) const;
  void say_requests(class JobWaits& say, const std::vector<TokenBook::Open>& open) const;

  JobOptions options_;
  Stage stage_ = Stage::joining;
  Nanoseconds created_ = 0;
  Nanoseconds next_word_ = 0;  // about those who have not joined
  Nanoseconds progress_ = 0;   // when there was some
  Nanoseconds started_ = 0;    // of the job's training
  Nanoseconds phase_started_ = 0;
  std::vector<Worker> workers_;
  std::map<std::uint32_t, Incarnation> shards_;  // that have joined; none of zero: it has left again
  std::deque<Request> requests_;                 // parked, in the order they came
  TokenBook book_;
  std::uint32_t epoch_ = 0;
  std::vector<std::uint64_t> versions_;  // as options_.shards
  EpochDone figures_;                    // of the current epoch
  Error failure_;
  JobCounters counters_;
  CommitLog commits_;
  std::map<std::uint64_t, JobState> states_;  // without commits, by their step
  SaveRound save_;
  std::uint64_t view_ = 0;
  std::optional<Nanoseconds> empty_since_;  // nobody is left
  std::vector<EpochDone> untold_;           // nobody was there
  std::vector<MembershipEvent> events_;
  std::optional<Nanoseconds> lost_at_;  // the first loss since a step was complete
};

std::string_view name(Coordinator::Stage stage);

// Of settings as in Join: "batch is '64', expected '32'; seed is missing, expected '7'"; at most three.
std::string setting_differences(std::string_view expected, std::string_view actual);

}  // namespace troupe
