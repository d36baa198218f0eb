// The checkpoints of a job that has all its variables in one session: a job of one process, or a rank of an all-reduce.
// They are those of a job with one parameter shard, so that one may go on from the other's.
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
  // What a job begins with: values by name; variables that have none are initialized.
  struct Start {
    JobState state;
    std::map<std::string, Tensor> values;
  };

  // `writes`: else this task only knows when something is saved, and has no part in it.
  SessionCheckpoints(const TrainingPlan& plan, const TrainingGraph& graph, Session& session, std::string settings,
                     std::uint32_t slots, std::uint64_t steps_per_epoch, bool writes);

  // All variables of the graph, also those that an optimizer keeps.
  const std::vector<VariableInfo>& variables() const { return variables_; }
  // Feeds that make the graph's initializer set these values.
  Feeds feeds_of(const std::map<std::string, Tensor>& values) const;

  // The newest checkpoint, which is told, unless the plan's state is newer. Throws as CheckpointKeeper::newest(), and
  // failed_precondition if the checkpoint's variables are not the graph's.
  Start start();
  // Values of all variables of the graph, or of the model's parameters, after the steps that have been started; of
  // those that do not run in the order they were started, none may be under way.
  std::map<std::string, Tensor> read_all() const;
  Parameters read_parameters() const;
  // The job begins at this step.
  void begin_at(std::uint64_t step);

  // Is the job to be saved when this many steps are complete? The same on all ranks.
  bool due(std::uint64_t step) const { return step > first_ && every_ > 0 && (step % every_ == 0 || step == last_); }
  // Reads the variables, in a step after those that have been started: call it when a step is due that is the last of
  // them. While the save before is still being written, nothing is read, but at the end of the job. `wait`: returns
  // when they are read; for steps that do not run in the order they were started.
  void read(std::uint64_t step, bool wait);
  // The job stands here: saves it, if it has been read.
  void save(const JobState& state);
  // At the end.
  void wait() const {
    if (keeper_) keeper_->wait(options_);
  }

 private:
  struct Reading {
    std::uint64_t step = 0;
    CheckpointKeeper::Clock::time_point began;
    std::future<std::vector<Tensor>> values;
  };
  ShardContents contents_of(const std::vector<Tensor>& values, std::uint64_t step) const;
  std::string owner_of(const std::string& slot) const;

  std::optional<Start> newest();

  const TrainingOptions& options_;
  const TrainingState& state_;
  const Graph& graph_;
  std::vector<VariableInfo> variables_;
  std::set<std::string> parameters_;  // the names of the model's: all others but the loss scale are an optimizer's
  std::string loss_scale_;            // its variable; "": the loss is not scaled
  std::string settings_;
  CheckpointManifest form_;
  std::optional<CheckpointKeeper> keeper_;
  std::vector<VariableRef> model_;
  Callable read_, read_model_;
  std::uint64_t every_ = 0;
  std::uint64_t first_ = 0, last_ = 0;
  std::deque<Reading> reading_;
};

}  // namespace troupe
