// Where a training loop without a coordinator stands, and the figures of its epochs. Shared by local training and the
// ranks of all-reduce training.
//
// Figures of a rank are those of its own slot; given the sums of all ranks, end() makes those of the job. Not
// thread-safe. Times are of a steady clock, in nanoseconds.
#pragma once

#include <cstdint>

#include <troupe/messages/frames.hpp>
#include <troupe/scheduler/training/job_state.hpp>

namespace troupe {

class EpochFigures {
 public:
  // `examples`: of a step, of all slots.
  EpochFigures(std::uint32_t epochs, std::uint64_t steps_per_epoch, std::uint64_t examples)
      : epochs_(epochs), steps_(steps_per_epoch), examples_(examples) {}

  // The steps that are complete, and the epoch of the next.
  const JobState& at() const { return at_; }
  void go_on_from(JobState at) { at_ = std::move(at); }
  bool over() const { return at_.epoch >= epochs_; }
  // Steps of the epoch under way: its first, that after its last, and how many are complete.
  std::uint64_t first() const { return at_.epoch * steps_; }
  std::uint64_t end_step() const { return first() + steps_; }
  std::uint64_t complete() const { return at_.step - first(); }
  std::uint64_t steps_per_epoch() const { return steps_; }
  std::uint64_t all_steps() const { return epochs_ * steps_; }
  std::uint64_t examples_per_step() const { return examples_; }

  // The rest of the epoch begins.
  void begin(std::int64_t now) { began_ = now - at_.epoch_ns; }
  void step_done(double loss_sum, std::uint64_t correct, std::int64_t now);
  // All its steps are complete: its figures, from sums over all slots.
  EpochDone end(double loss_sum, std::uint64_t correct, double test_accuracy);
  EpochDone end(double test_accuracy) { return end(at_.loss_sum, at_.correct, test_accuracy); }
  // To be called after end().
  void next_epoch();

  const EpochDone& last() const { return last_; }  // that has ended; all 0: none
  double images_per_second() const;                // of the whole job, up to there
  double seconds() const { return last_.seconds; }

 private:
  std::uint32_t epochs_;
  std::uint64_t steps_, examples_;
  std::int64_t began_ = 0;
  JobState at_;
  EpochDone last_;
};

}  // namespace troupe
