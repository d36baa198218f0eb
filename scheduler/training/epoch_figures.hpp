// Progress and epoch figures of a training loop without a coordinator. Shared by local training and the ranks of
// all-reduce training.
//
// Not thread-safe. Times are steady-clock nanoseconds.
#pragma once

#include <cstdint>
#include <optional>

#include <troupe/messages/frames.hpp>
#include <troupe/scheduler/data/data_places.hpp>
#include <troupe/scheduler/training/job_state.hpp>

namespace troupe {

class EpochFigures {
 public:
  // steps_per_epoch: nullopt: until the data ends.
  // `control`: null: all epochs are trained.
  EpochFigures(std::uint32_t epochs, std::optional<std::uint64_t> steps_per_epoch, EpochControl control = {})
      : epochs_(epochs), steps_(steps_per_epoch), decisions_(std::move(control)) {}

  // The state after the last complete step; its epoch is that of the next step.
  const JobState& at() const { return at_; }
  void go_on_from(JobState at);
  bool over() const { return at_.epoch >= epochs_ || (at_.epoch > 0 && decisions_.last().stop); }
  const EpochDecisions& decisions() const { return decisions_; }
  // Steps of the current epoch: the number of complete ones, and of all; 0: unknown.
  std::uint64_t complete() const { return at_.step - at_.epoch_step; }
  std::uint64_t steps_per_epoch() const { return steps_.value_or(0); }
  std::uint64_t all_steps() const { return decisions_.any() ? 0 : epochs_ * steps_per_epoch(); }

  // Starts the clock for the rest of the epoch.
  void begin(std::int64_t now) { began_ = now - at_.epoch_ns; }
  void step_done(std::int64_t now);
  void step_done(std::uint64_t examples, std::int64_t now) {
    add_examples(examples);
    step_done(now);
  }
  // Of one slot. Call in the order of steps and slots, in which a coordinator adds them up too: the bits of sums depend
  // on it.
  void add_figures(const NamedSums& of_slot) { add(at_.sums, of_slot); }
  void add_examples(std::uint64_t examples) { at_.examples += examples; }
  // A place in the training data, for the states of later steps.
  void add_place(const DataPlace& place) { places_.add(place); }
  // Call when all steps of the epoch are complete, and all their figures added. Returns the figures of the epoch.
  EpochDone end(NamedSums evaluation);
  // Call after end(): whether that was the last epoch.
  bool ends() const { return at_.epoch + 1 >= epochs_ || last_.decision.stop; }
  void next_epoch();

  const EpochDone& last() const { return last_; }  // of the last ended epoch; all 0 if none
  double examples_per_second() const;              // of the whole job, up to the end of that epoch
  double seconds() const { return last_.seconds; }

 private:
  std::uint32_t epochs_;
  std::optional<std::uint64_t> steps_;
  std::int64_t began_ = 0;
  DataPlaces places_;
  std::uint64_t examples_ = 0;  // of the ended epochs, since this process began
  std::int64_t ended_ns_ = 0;   // their time
  EpochDecisions decisions_;
  JobState at_;
  EpochDone last_;
};

}  // namespace troupe
