// The curves of a training job, in all modes: scalars, histograms of the parameters and the graph, as event files of
// TensorBoard (actors/tensorboard). They are written by an actor of its own while training goes on; what cannot be
// written is told once, and harms nothing.
//
//   loss, learning_rate               every TrainingOptions::tensorboard_every steps, at the number of steps complete
//   epoch/loss, epoch/train_accuracy, epoch/test_accuracy, epoch/images_per_second
//   parameters/NAME                   histograms after each epoch
//   the graph
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <troupe/actors/training/training_plan.hpp>
#include <troupe/graph/graph.hpp>

namespace troupe {

// The mean loss of windows of so many steps. What belongs to a window is known when a later step has been computed.
class LossWindows {
 public:
  struct Point {
    std::uint64_t steps = 0;  // complete, at the end of the window
    double loss = 0;          // mean over the examples
    bool operator==(const Point&) const = default;
  };

  explicit LossWindows(std::uint64_t every) : every_(every) {}
  // A part of a step, counted from 0, has been computed. Returns the window before, if the step is beyond it.
  std::optional<Point> add(std::uint64_t step, double loss_sum, std::uint64_t examples);
  // So many steps are complete, and nothing of them is to come. `all`: a window that is not full counts too.
  std::optional<Point> complete(std::uint64_t steps, bool all);

 private:
  std::optional<Point> close(std::uint64_t steps);

  std::uint64_t every_;
  std::uint64_t end_ = 0;  // of the window; 0: there is none yet
  double loss_sum_ = 0;
  std::uint64_t examples_ = 0;
};

// What may wait for a slow disk; more is left out.
struct CurveLimits {
  int events = 1024;
  std::uint64_t bytes =
      256 << 20;  // of parameters whose histograms are to be written; those of one time may always wait
};

// For one thread, that of the training.
class TrainingCurves {
 public:
  // Does nothing without TrainingOptions::tensorboard. `tells`: this task tells the user from the beginning, and makes
  // the file now. Throws failed_precondition, permission_denied or not_found if that cannot be; a disk that is full
  // only makes an event. Refers to the plan as long as it lives, to its files until all is written.
  TrainingCurves(const TrainingPlan& plan, const Graph& graph, bool tells, const CurveLimits& limits = {});
  ~TrainingCurves();
  TrainingCurves(const TrainingCurves&) = delete;
  TrainingCurves& operator=(const TrainingCurves&) = delete;

  // This task tells the user from now on, or does not.
  void set_tells(bool tells) { tells_ = tells; }
  bool on() const { return writer_ && tells_; }

  // Part of a step, which counts from 0 over the whole job. What is told first says where the job goes on: what older
  // files tell of that step and later ones counts no more.
  void step_done(std::uint64_t step, double loss_sum, std::uint64_t examples);
  void epoch_done(const EpochDone& figures);
  // After so many steps. Nobody may write to their memory.
  void parameters(std::uint64_t steps, Parameters values);

  // At the end: returns when all is written, or after 10 s.
  void wait() const;

 private:
  class Writer;
  void begin(std::uint64_t steps);
  void point(const std::optional<LossWindows::Point>& point);
  std::optional<double> learning_rate(std::uint64_t steps) const;

  const TrainingPlan& plan_;
  std::shared_ptr<Writer> writer_;
  bool tells_;
  bool begun_ = false;
  LossWindows windows_;
};

}  // namespace troupe
