// Schedules the checkpoints of a training job, one round at a time: tells shards to save, collects their answers, and
// tracks when all is written and whether the job may end.
//
//   idle ── a save is due, the writer is free ──▶ shards save ── all have, the state is known ──▶ to be committed
//     ▲                                               │ one has failed                                    │
//     └───────────────────────────────────────────────┴───────────── at once, while the writer works on ──┘
//
// A save that comes due while a round or the writer is busy is left out. A job that is to end before its last step
// hurries: it saves once more, as soon as the writer is free, unless a round is under way. While it evaluates, that is
// the step of now, which replaces a round at a later step. When all steps are complete, a last round follows, which is
// never left out; the job ends when it is written. It replaces a round at a later step, too, which never comes if the
// data ended before.
//
// A checkpoint is named by its step, and the newest is that of the highest. So no round is told twice for a step, and
// an asynchronous one, which has the job's state of when the shards are told and any later batches, is that of this
// state: a step ahead would name a checkpoint without the last updates like the last one, or higher.
//
// Driven by the Coordinator, whose own driver (an actor, the simulator) writes the rounds from take_events() and calls
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

// One checkpoint round.
struct SaveRound {
  std::uint64_t step = 0;  // the number of steps applied
  std::map<std::uint32_t, Saved> shards;
  Error error;           // the first of a shard
  bool complete = true;  // all shards have answered
  Nanoseconds began = 0;
  std::optional<JobState> state;  // of the job at the step, once known
};

struct SaveEvent {
  enum class Kind : std::uint8_t {
    commit,  // make the round a checkpoint; written() follows, even on failure
    failed,  // a shard failed to save
    left_out
  };
  Kind kind = Kind::commit;
  SaveRound round;         // empty for left_out
  std::uint64_t step = 0;  // left_out: when the save was due
};

class SaveRounds {
 public:
  struct Options {
    std::uint64_t every = 0;  // steps; 0: no saves
    std::uint64_t begun = 0;  // step of the checkpoint the job starts from; 0: none
    std::vector<std::uint32_t> shards;
    bool asynchronous = false;  // saves the job's state as of when the shards are told
  };
  // The job's progress.
  struct Job {
    bool training = false;         // if not, no shard goes past `steps` before it is again
    bool over = false;             // all steps are complete
    std::uint64_t steps = 0;       // complete
    std::uint64_t step_ahead = 0;  // no shard has reached it
    std::function<std::optional<JobState>(std::uint64_t step)> state;
  };
  explicit SaveRounds(Options options);

  bool saves() const { return options_.every > 0; }
  // The job ends after one more round; hurried() is true once that is written, or has failed.
  void hurry() { hurry_ = true; }
  bool hurried() const { return hurried_ && !under_way_ && committing_ == 0; }

  // Call after each event. `writer_busy`: earlier rounds are still being written.
  void move(const Job& job, bool writer_busy, Nanoseconds now, TrainingOutbox& out);
  // Records a shard's answer. Returns false if it is repeated or of another round.
  bool saved(const Saved& message);
  // Call when a committed round has become a checkpoint, or cannot become one.
  void written() { --committing_; }
  std::vector<SaveEvent> take_events() { return std::exchange(events_, {}); }

  // Whether the last step has been saved, or cannot be.
  bool over() const { return over_; }
  const SaveRound& round() const { return round_; }

 private:
  void move_in_a_hurry(const Job& job, bool writer_busy, Nanoseconds now, TrainingOutbox& out);
  void begin(const Job& job, Nanoseconds now, TrainingOutbox& out);
  void end_when_complete(const Job& job);

  Options options_;
  SaveRound round_;
  bool under_way_ = false;
  std::uint64_t told_;  // the last step the shards were told to save, or the one the job started from
  std::uint64_t next_;  // step count at which the next save is due
  int committing_ = 0;
  bool hurry_ = false;
  bool hurried_ = false;  // a round has begun that is late enough
  bool over_;
  std::vector<SaveEvent> events_;
};

}  // namespace troupe
