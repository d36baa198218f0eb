// The checkpoints of a job with all variables in one session: a job of one process, or a rank of an all-reduce. They
// equal those of a job with one parameter shard, so that either can resume from the other's.
#pragma once

#include <deque>
#include <future>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <troupe/actors/session/session.hpp>
#include <troupe/actors/training/checkpoint_keeper.hpp>

namespace troupe {

class SessionCheckpoints {
 public:
  // The start of a job: values by name; variables without one are initialized.
  struct Start {
    JobState state;
    std::map<std::string, Tensor> values;
    Parameters kept;  // EpochDecision::keep; empty: none
  };

  // `writes`: false: this task only knows when a save is due, and takes no part in it.
  SessionCheckpoints(const TrainingPlan& plan, const TrainingGraph& graph, Session& session, std::string settings,
                     std::uint32_t slots, std::uint64_t steps_per_epoch, bool writes);

  // All variables of the graph, including the optimizer's.
  const std::vector<VariableInfo>& variables() const { return variables_; }
  // Feeds with which the graph's initializer sets these values.
  Feeds feeds_of(const std::map<std::string, Tensor>& values) const;

  // The newest checkpoint, which is reported, unless the plan's state is newer. Throws like CheckpointKeeper::newest(),
  // and failed_precondition if the checkpoint's variables are not the graph's.
  Start start();
  // Values of all variables of the graph, or of the model's parameters, after the steps started so far. Steps that do
  // not run in the order they were started must have ended.
  std::map<std::string, Tensor> read_all() const;
  Parameters read_parameters() const;
  // Sets the first step of the job.
  void begin_at(std::uint64_t step);

  // Whether to save when this many steps are complete. The same on all ranks.
  bool due(std::uint64_t step) const { return step > first_ && every_ > 0 && (step % every_ == 0 || step == last_); }
  // Reads the variables in a step after those started: call it when the last started step is due. Reads nothing while
  // the previous save is being written, except at the end of the job. `wait`: returns when they are read; for steps
  // that do not run in the order they were started.
  void read(std::uint64_t step, bool wait);
  // Saves the job at this state, if the variables were read for it. `kept`: Start::kept.
  void save(const JobState& state, const Parameters& kept);
  // Reads and saves the last state of a job whose number of steps was unknown. No step may be running.
  void save_last(const JobState& state, const Parameters& kept);
  // Saves a job that is stopped at this state, and waits until that is written, however long. No step may be running.
  void save_stopped(const JobState& state, const Parameters& kept);
  // Waits until all saves are written.
  void wait() const {
    if (keeper_) keeper_->wait(options_);
  }

 private:
  struct Reading {
    std::uint64_t step = 0;
    CheckpointKeeper::Clock::time_point began;
    std::future<std::vector<Tensor>> values;
  };
  ShardContents contents_of(const std::vector<Tensor>& values, std::uint64_t step, const Parameters& kept) const;
  std::string owner_of(const std::string& slot) const;

  std::optional<Start> newest();

  const TrainingOptions& options_;
  const TrainingState& state_;
  const Graph& graph_;
  std::vector<VariableInfo> variables_;
  std::set<std::string> parameters_;  // names of the model's; all others but the loss scale are the optimizer's
  std::set<std::string> frozen_;      // of these, those that nothing updates: they are not saved
  std::string loss_scale_;            // its variable; "": the loss is not scaled
  std::string settings_;
  CheckpointManifest form_;
  std::optional<CheckpointKeeper> keeper_;
  std::vector<VariableRef> model_;
  Callable read_, read_model_;
  std::uint64_t every_ = 0;
  std::uint64_t first_ = 0, last_ = 0;  // last_: 0: unknown
  std::uint64_t saved_ = 0;             // the step of the last save
  std::uint64_t phases_;
  std::deque<Reading> reading_;
};

}  // namespace troupe
