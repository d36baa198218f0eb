// The checkpoints of a training job, one round after the other: when shards are told to save, what they have answered,
// when all has been written, and whether the job may end.
//
//   idle ── a save is due, the writer is free ──▶ shards save ── all have, the state is known ──▶ to be committed
//     ▲                                               │ one has failed                                    │
//     └───────────────────────────────────────────────┴──────────────────── at once, the writer goes on ──┘
//
// A save that is due while a round or the writer is busy is left out. When all steps are complete a last round follows,
// for which no other is in the way; the job ends when that is written.
//
// The Coordinator moves it; whoever drives that (an actor, the simulator) writes what take_events() hands out, and says
// written() for each. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <troupe/scheduler/training/job_options.hpp>
#include <troupe/scheduler/training/outgoing.hpp>

namespace troupe {

// One of them.
struct SaveRound {
  std::uint64_t version = 0;
  std::map<std::uint32_t, Saved> shards;
  Error error;           // the first of them
  bool complete = true;  // all have answered
  Nanoseconds began = 0;
  std::optional<JobState> state;  // of the job at the version; once known
};

struct SaveEvent {
  enum class Kind : std::uint8_t {
    commit,  // the round is to be made a checkpoint: written() follows, well or not
    failed,  // the round came to nothing
    left_out
  };
  Kind kind = Kind::commit;
  SaveRound round;         // not of left_out
  std::uint64_t step = 0;  // left_out: that would have been saved
};

class SaveRounds {
 public:
  struct Options {
    std::uint64_t every = 0;  // steps; 0: nothing is saved
    std::uint64_t begun = 0;  // version of the checkpoint that the job begins with; 0: none
    std::uint64_t last = 0;   // after so many steps the job is over
    std::vector<std::uint32_t> shards;
    bool asynchronous = false;  // the state is that of when the shards are told
  };
  // Where the job stands.
  struct Job {
    bool training = false;
    std::uint64_t steps = 0;          // complete
    std::uint64_t version_ahead = 0;  // that no shard can have yet
    std::function<std::optional<JobState>(std::uint64_t version)> state;
  };
  explicit SaveRounds(Options options);

  // To be called after each thing that happens. `writer_busy`: what it was given before is not all written.
  void move(const Job& job, bool writer_busy, Nanoseconds now, TrainingOutbox& out);
  // False if it is a repetition.
  bool saved(const Saved& message);
  // A round that was to be committed is a checkpoint, or cannot become one.
  void written() { --committing_; }
  std::vector<SaveEvent> take_events() { return std::exchange(events_, {}); }

  // The last version is saved, as far as it can be.
  bool over() const { return over_; }
  const SaveRound& round() const { return round_; }

 private:
  void begin(const Job& job, Nanoseconds now, TrainingOutbox& out);
  void end_when_complete(const Job& job);

  Options options_;
  SaveRound round_;
  bool under_way_ = false;
  std::uint64_t told_;  // the last version that shards were told to save, or the one that the job began with
  std::uint64_t next_;  // steps after which the next is due
  int committing_ = 0;
  bool over_;
  std::vector<SaveEvent> events_;
};

}  // namespace troupe
