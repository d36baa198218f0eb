// The members of a training job: which workers are expected, joined or lost, and whose messages are accepted.
//
//   absent ──▶ joined ◀── expected        the first `workers` are expected, others up to max_workers may join too
//     ▲          │  ▲
//     └─ leaves ─┤  └─ joins again ─┐     leaving before training begins undoes the join
//                └──── lost ────────┘
//
// Each join or loss of a worker creates a new view of the membership, numbered one higher. A worker's messages carry
// the view in which it joined. Messages of a lost worker or of an earlier incarnation are dropped and counted, and
// answered with a Fence.
//
// Knows nothing of tokens and phases: the Coordinator decides how a join or a loss affects those.
//
// Not thread-safe. Times are steady-clock nanoseconds.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/scheduler/training/job_options.hpp>
#include <troupe/scheduler/training/outgoing.hpp>

namespace troupe {

// A membership event of a job, for display and logs.
struct MembershipEvent {
  enum class Kind : std::uint8_t {
    waits,      // training is waiting for members
    began,      // training
    joined,     // for the first time or again
    used,       // the first token of a joined worker is done; `took`: since it joined
    suspected,  // silent for a while
    heard,      // a suspected worker was heard from again
    lost,
    went_on,  // the first step after a loss is complete; `took`: since the loss
    fenced,   // the first refused message of a former member since it was lost or joined again
  };
  Kind kind = Kind::began;
  std::optional<std::uint32_t> worker;
  std::uint64_t step = 0;  // next to be completed
  Nanoseconds took = 0;
  std::string text;  // for display; "": not shown
};
std::string_view name(MembershipEvent::Kind kind);

class JobMembers {
 public:
  enum class Presence : std::uint8_t { absent, expected, joined, lost };
  struct Worker {
    Presence presence = Presence::absent;
    Incarnation incarnation;
    bool in_barrier = false;
    std::uint64_t view = 0;  // in which it joined
    Nanoseconds joined = 0;  // when
    bool used = false;
    bool suspect = false;
    bool fenced = false;                    // and noted as an event
    std::deque<Incarnation> retired;        // the last earlier ones: their late Joins are refused
    std::optional<Nanoseconds> kept_until;  // its tokens, for its next incarnation
  };
  struct Counts {
    std::uint64_t repeated = 0, refused = 0, ignored = 0, fenced = 0, joins = 0, losses = 0;  // as in JobCounters
  };

  // `options` must outlive the object.
  explicit JobMembers(const JobOptions& options);
  JobMembers(const JobMembers&) = delete;
  JobMembers& operator=(const JobMembers&) = delete;

  // Whether to accept a message of this worker from this view. If not, `error` is the reason, or empty: ignore the
  // message.
  bool admits(std::uint32_t worker, std::uint64_t view, Error& error, TrainingOutbox& out);
  // Whether to admit() the sender of this Join. If not, as above. `over`: the job is over, no one may join.
  bool may_join(const Join& message, bool over, Error& error);
  // Returns failed_precondition if the sender was started for another job.
  Error other_job(const Join& message);
  void admit(std::uint32_t worker, Incarnation incarnation, Nanoseconds now, bool tell);
  void admit_shard(const Join& message) { shards_[message.worker] = message.incarnation; }
  // Whether the sender of this Leave is the current member.
  bool leaves(const Leave& message) const;
  // Undoes a join before training begins: the task may join again.
  void leave(const Leave& message);
  // Ends a worker's membership and, unless that ends the job, sends a Fence to all shards. `training`: training has
  // begun, so the interruption is timed.
  void lose(std::uint32_t worker, const Error& why, bool training, Nanoseconds now, TrainingOutbox& out);
  // Begins training with the current members.
  void begin();

  // Marks a worker as suspect (silent for a while), or as heard from again. It stays a member.
  void suspect(std::uint32_t worker, bool suspect);
  // Notes that a worker has completed a token.
  void use(std::uint32_t worker, Nanoseconds now);
  // Sets the number of complete steps.
  void advance(std::uint64_t steps, Nanoseconds now);
  // Returns false if it is already there.
  bool enter_barrier(std::uint32_t worker) { return !std::exchange(workers_[worker].in_barrier, true); }
  void leave_barrier(std::uint32_t worker) { workers_[worker].in_barrier = false; }
  // Ends expired grace periods. Returns their workers, whose tokens are no longer kept for them.
  std::vector<std::uint32_t> end_grace(Nanoseconds now);

  std::uint32_t size() const { return static_cast<std::uint32_t>(workers_.size()); }
  const Worker& worker(std::uint32_t index) const { return workers_[index]; }
  bool is_member(std::uint32_t index) const { return workers_[index].presence == Presence::joined; }
  std::uint32_t count() const;  // of members
  bool any() const { return count() > 0; }
  std::uint32_t in_barrier() const;
  std::uint64_t view() const { return view_; }
  // The view in which the sender of this Join is a member; 0 if it is none.
  std::uint64_t view_of(const Join& message) const;
  std::uint32_t chief() const;  // the lowest worker that has not been lost; size(): none
  // Since when no worker has been joined or expected.
  std::optional<Nanoseconds> empty_since() const { return empty_since_; }
  // End of the next grace period.
  std::optional<Nanoseconds> next_grace() const;
  // Tasks that must still join before training begins: the number of workers, the shards, and both as text.
  std::size_t missing_workers() const;
  std::vector<std::uint32_t> missing_shards() const;
  bool has_left(std::uint32_t shard) const;  // a missing shard: had joined before
  std::string not_joined() const;
  // "/job:worker/task:0, /job:worker/task:2"
  std::string list(Presence presence) const;
  std::string outside_barrier() const;
  std::string to_string() const;  // "view 7: workers 0, 2 of 4; suspect: 2; lost: 1"
  const Counts& counts() const { return counts_; }

  void note(MembershipEvent::Kind kind, std::optional<std::uint32_t> worker = std::nullopt, Nanoseconds took = 0,
            std::string text = {});
  std::vector<MembershipEvent> take_events() { return std::exchange(events_, {}); }

 private:
  Error refuse(Code code, std::string text);
  static void retire(Worker& worker);
  template <class Chosen>
  std::string list_if(Chosen chosen) const;

  const JobOptions& options_;
  std::vector<Worker> workers_;
  std::map<std::uint32_t, Incarnation> shards_;  // that have joined; zero: has left again
  std::uint64_t view_ = 0;
  std::uint64_t steps_ = 0;
  Counts counts_;
  std::optional<Nanoseconds> empty_since_;
  std::optional<Nanoseconds> lost_at_;  // first loss since the last complete step
  std::vector<MembershipEvent> events_;
};

std::string worker_name(std::uint32_t worker);  // "/job:worker/task:1"
std::string shard_name(std::uint32_t shard);    // "/job:ps/task:1"

// Lists up to three differences between settings (see Join): "batch is '64', expected '32'; seed is missing, expected
// '7'".
std::string setting_differences(std::string_view expected, std::string_view actual);

}  // namespace troupe
