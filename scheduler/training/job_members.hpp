// The members of a training job: who is expected, who has joined, who is lost, and whose messages count.
//
//   absent ──▶ joined ◀── expected        the first `workers` are expected, others up to max_workers may join too
//     ▲          │  ▲
//     └─ leaves ─┤  └─ joins again ─┐     before training begins whoever leaves is as if it had never joined
//                └──── lost ────────┘
//
// Every join and loss of a worker makes a new view of the membership, with a number one higher. Messages of a worker
// carry the view in which it joined. Those of a lost worker, or from before its next incarnation joined, are dropped
// and counted, and answered with a Fence.
//
// Knows nothing of tokens and phases: the Coordinator decides what a join or a loss does to those.
//
// Not thread-safe. Times are of a steady clock.
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

// An event in the membership of a job, for people and logs.
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
    bool fenced = false;                    // and told
    std::deque<Incarnation> retired;        // the last before this one: their Joins, if any still come, are refused
    std::optional<Nanoseconds> kept_until;  // its tokens are, for its next incarnation
  };
  struct Counts {
    std::uint64_t repeated = 0, refused = 0, ignored = 0, fenced = 0, joins = 0, losses = 0;  // as in JobCounters
  };

  // `options` must outlive the object.
  explicit JobMembers(const JobOptions& options);
  JobMembers(const JobMembers&) = delete;
  JobMembers& operator=(const JobMembers&) = delete;

  // Whether a message of this worker, from this view, is one of a member. If not, `error` says why, or it is ignored.
  bool admits(std::uint32_t worker, std::uint64_t view, Error& error, TrainingOutbox& out);
  // Whether this worker's Join is to be followed by admit(). If not, as above. `over`: nobody joins any more.
  bool may_join(const Join& message, bool over, Error& error);
  // failed_precondition: it was started for another job.
  Error other_job(const Join& message);
  void admit(std::uint32_t worker, Incarnation incarnation, Nanoseconds now, bool tell);
  void admit_shard(const Join& message) { shards_[message.worker] = message.incarnation; }
  // Whether the one that says Leave is the one that has joined.
  bool leaves(const Leave& message) const;
  // Before training begins: it may join again.
  void leave(const Leave& message);
  // It is a member no more, and unless that ends the job all shards hear so. `training`: has begun, and is held up.
  void lose(std::uint32_t worker, const Error& why, bool training, Nanoseconds now, TrainingOutbox& out);
  // Training begins with those who are there.
  void begin();

  // Nothing has been heard of the worker for a while; or something has again. It stays a member.
  void suspect(std::uint32_t worker, bool suspect);
  // It has completed a token.
  void use(std::uint32_t worker, Nanoseconds now);
  // So many steps are complete.
  void advance(std::uint64_t steps, Nanoseconds now);
  // False if it is there already.
  bool enter_barrier(std::uint32_t worker) { return !std::exchange(workers_[worker].in_barrier, true); }
  void leave_barrier(std::uint32_t worker) { workers_[worker].in_barrier = false; }
  // Workers whose tokens are not kept for them any more.
  std::vector<std::uint32_t> end_grace(Nanoseconds now);

  std::uint32_t size() const { return static_cast<std::uint32_t>(workers_.size()); }
  const Worker& worker(std::uint32_t index) const { return workers_[index]; }
  bool is_member(std::uint32_t index) const { return workers_[index].presence == Presence::joined; }
  std::uint32_t count() const;  // of members
  bool any() const { return count() > 0; }
  std::uint32_t in_barrier() const;
  std::uint64_t view() const { return view_; }
  // The view in which the sender of this Join is a member; 0: it is none.
  std::uint64_t view_of(const Join& message) const;
  std::uint32_t chief() const;  // the lowest worker that has not been lost; size(): none
  // Since when there has been nobody to go on with.
  std::optional<Nanoseconds> empty_since() const { return empty_since_; }
  // When end_grace() has something to do.
  std::optional<Nanoseconds> next_grace() const;
  // Tasks that must still join before training begins: a number of workers; shards; both in words.
  std::size_t missing_workers() const;
  std::vector<std::uint32_t> missing_shards() const;
  bool has_left(std::uint32_t shard) const;  // it had joined
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
  template <class Chosen>
  std::string list_if(Chosen chosen) const;

  const JobOptions& options_;
  std::vector<Worker> workers_;
  std::map<std::uint32_t, Incarnation> shards_;  // that have joined; none of zero: it has left again
  std::uint64_t view_ = 0;
  std::uint64_t steps_ = 0;
  Counts counts_;
  std::optional<Nanoseconds> empty_since_;
  std::optional<Nanoseconds> lost_at_;  // the first loss since a step was complete
  std::vector<MembershipEvent> events_;
};

std::string worker_name(std::uint32_t worker);  // "/job:worker/task:1"
std::string shard_name(std::uint32_t shard);    // "/job:ps/task:1"

// Of settings as in Join: "batch is '64', expected '32'; seed is missing, expected '7'"; at most three.
std::string setting_differences(std::string_view expected, std::string_view actual);

}  // namespace troupe
