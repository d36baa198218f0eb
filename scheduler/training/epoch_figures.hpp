// Progress and epoch figures of a training loop without a coordinator. Shared by local training and the ranks of
// all-reduce training.
//
// A rank keeps the figures of its own slot; end() computes those of the job from the sums over all ranks. Not
// thread-safe. Times are steady-clock nanoseconds.
#pragma once

#include <cstdint>

#include <troupe/messages/frames.hpp>
#include <troupe/scheduler/training/job_state.hpp>

namespace troupe {

class EpochFigures {
 public:
  // `examples`: per step, over all slots.
  EpochFigures(std::uint32_t epochs, std::uint64_t steps_per_epoch, std::uint64_t examples)
      : epochs_(epochs), steps_(steps_per_epoch), examples_(examples) {}

  // The state after the last complete step; its epoch is that of the next step.
  const JobState& at() const { return at_; }
  void go_on_from(JobState at) { at_ = std::move(at); }
  bool over() const { return at_.epoch >= epochs_; }
  // Steps of the current epoch: its first, one past its last, and the number of complete ones.
  std::uint64_t first() const { return at_.epoch * steps_; }
  std::uint64_t end_step() const { return first() + steps_; }
  std::uint64_t complete() const { return at_.step - first(); }
  std::uint64_t steps_per_epoch() const { return steps_; }
  std::uint64_t all_steps() const { return epochs_ * steps_; }
  std::uint64_t examples_per_step() const { return examples_; }

  // Starts the clock for the rest of the epoch.
  void begin(std::int64_t now) { began_ = now - at_.epoch_ns; }
  void step_done(double loss_sum, std::uint64_t correct, std::int64_t now);
  // Call when all steps of the epoch are complete. Returns its figures, from sums over all slots.
  EpochDone end(double loss_sum, std::uint64_t correct, double test_accuracy);
  EpochDone end(double test_accuracy) { return end(at_.loss_sum, at_.correct, test_accuracy); }
  // Call after end().
  void next_epoch();

  const EpochDone& last() const { return last_; }  // of the last ended epoch; all 0 if none
  double images_per_second() const;                // of the whole job, up to the end of that epoch
  double seconds() const { return last_.seconds; }

 private:
  std::uint32_t epochs_;
  std::uint64_t steps_, examples_;
  std::int64_t began_ = 0;
  JobState at_;
  EpochDone last_;
};

}  // namespace troupe
