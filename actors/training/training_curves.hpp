// The curves of a training job, in all modes: scalars, parameter histograms and the graph, as TensorBoard event files
// (actors/tensorboard). A separate actor writes them while training continues; failures are reported once and do not
// end training.
//
//   loss, learning_rate               every TrainingOptions::tensorboard_every steps, at the number of steps complete;
//                                     of the first objective
//   epoch/FIGURE, epoch/val_FIGURE    the scalar figures of the program, and those of the evaluation
//   epoch/examples_per_second
//   parameters/NAME                   histograms after each epoch
//   the summaries of the program      (graph/builder/summary.hpp) in the first of every tensorboard_every steps that
//                                     the task computes, at the number of steps complete after it
//   the graph
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <troupe/actors/training/training_plan.hpp>

namespace troupe {

// The mean loss over windows of `every` steps. A window is complete once a later step has been computed.
class LossWindows {
 public:
  struct Point {
    std::uint64_t steps = 0;  // complete, at the end of the window
    double loss = 0;          // mean over the examples
    bool operator==(const Point&) const = default;
  };

  explicit LossWindows(std::uint64_t every) : every_(every) {}
  // Adds a computed part of a step, counted from 0. Returns the previous window if the step is beyond it.
  std::optional<Point> add(std::uint64_t step, double loss, std::uint64_t examples);
  // Returns the window if it ends within the first `steps` steps, which are complete. `all`: an incomplete window too.
  std::optional<Point> complete(std::uint64_t steps, bool all);

 private:
  std::optional<Point> close(std::uint64_t steps);

  std::uint64_t every_;
  std::uint64_t end_ = 0;  // of the window; 0: none yet
  double loss_sum_ = 0;
  std::uint64_t examples_ = 0;
};

// Limits of the queue to a slow disk; beyond them curves are dropped.
struct CurveLimits {
  int events = 1024;
  std::uint64_t bytes = 256 << 20;  // of queued parameters and summaries; one set is always accepted
};

// Used by one thread, that of the training.
class TrainingCurves {
 public:
  // Does nothing without TrainingOptions::tensorboard. `tells`: this task reports to the user from the start, and
  // creates the file now. Throws failed_precondition, permission_denied or not_found if that is impossible; a full disk
  // only causes an event. Refers to the plan for its lifetime, and to the plan's files until all is written.
  TrainingCurves(const TrainingPlan& plan, const TrainingGraph& graph, bool tells, const CurveLimits& limits = {});
  ~TrainingCurves();
  TrainingCurves(const TrainingCurves&) = delete;
  TrainingCurves& operator=(const TrainingCurves&) = delete;

  // Sets whether this task reports to the user from now on.
  void set_tells(bool tells) { tells_ = tells; }
  bool on() const { return writer_ && tells_; }

  // Adds part of a step, counted from 0 over the whole job. The first call marks where the job resumes: curves of that
  // step and later ones in older files become invalid. `loss`: the mean over the examples.
  void step_done(std::uint64_t step, double loss, std::uint64_t examples);
  void epoch_done(const EpochLogs& figures);
  // Queues histograms after `steps` steps. The values must not be modified.
  void parameters(std::uint64_t steps, Parameters values);

  // The outputs of the graph to compute for summaries(); empty: there is none to compute.
  Outputs summary_outputs() const;
  // Whether they are to be computed in this step, counted from 0; the same step asks once.
  bool takes_summaries(std::uint64_t step);
  // Their values, which must not be modified.
  void summaries(std::uint64_t step, std::vector<Tensor> values);

  // Waits at the end until all is written, at most 10 s.
  void wait() const;

 private:
  class Writer;
  void begin(std::uint64_t steps);
  void point(const std::optional<LossWindows::Point>& point);
  std::optional<double> learning_rate(std::uint64_t steps) const;

  const TrainingPlan& plan_;
  const Schedule rate_;
  const std::vector<SummaryOutput> summaries_;
  std::uint64_t next_summaries_ = 0;  // the first step that takes them
  std::shared_ptr<Writer> writer_;
  bool tells_;
  bool begun_ = false;
  LossWindows windows_;
};

}  // namespace troupe
