// Shared by all training modes: the model to build, the options, the state, and when to stop.
#pragma once

#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/training/job.hpp>
#include <troupe/actors/training/parameters.hpp>
#include <troupe/actors/training/training_state.hpp>
#include <troupe/devices/storage/file_systems.hpp>
#include <troupe/graph/training/towers.hpp>
#include <troupe/scheduler/data/batch_source.hpp>
#include <troupe/scheduler/training/shard_state.hpp>

namespace troupe {

// Protocol guards, which tests turn off to show that they notice (scheduler/training).
struct TrainingGuards {
  ShardGuards shard;
  bool members = true;  // JobOptions::fence
};

struct TrainingPlan {
  const Program& program;
  std::string description;  // of the program and its optimizers, for the job's settings: "name=value" a line
  const BatchSource& train;
  const BatchSource* evaluation = nullptr;  // null: no evaluation
  std::optional<LossScaling> loss_scaling;
  Clipping clipping = {};  // of each slot's gradients
  const TrainingOptions& options;
  TrainingState& state;  // read at the start, updated at the end
  Task& task;
  FileSystem& files = file_system_of(options.checkpoint);  // of checkpoints; outlives the task
  TrainingGuards guards = {};
};

// The options of a mode; what it does not have is as if it were turned off.
struct ModeFields {
  int slots = 0;  // 0: follows from the number of workers
  int backups = 0, staleness = 0, aggregate = 1;
  bool staleness_aware = false;
  std::string replay;
};
ModeFields fields_of(const JobMode& mode);

// Trains in the plan's mode.
TrainingResult train(const TrainingPlan& plan);
// Trains in one process, with all slots as towers of one graph.
TrainingResult train_locally(const TrainingPlan& plan);
// Runs this task's part in a mode with parameter servers: a worker computes, a ps task serves its shard. Returns when
// the job is over.
TrainingResult train_in_cluster(const TrainingPlan& plan);
// Runs this rank's part in a cluster of workers only, each with all variables. Returns when all ranks have ended, with
// the same parameters.
TrainingResult train_by_all_reduce(const TrainingPlan& plan);

// Throws invalid_argument for invalid options, or a training set smaller than one step. `slots`: of a step, without
// backups.
void check_training(const TrainingPlan& plan, int slots);

// The training graph for a task of this plan, with these other options.
TrainingGraph build_training_graph(const TrainingPlan& plan, TowerOptions options);
// The output of this name, "node" or "node:1". Throws not_found.
Output output_named(Graph& graph, const std::string& name);
// How the sources are cut into batches: for training with `slots` slots per step, with backups, and for evaluation.
// `in_use`: BatchPlan::in_use.
BatchPlan training_batches(const TrainingPlan& plan, std::uint32_t slots, std::size_t in_use);
BatchPlan evaluation_batches(const TrainingPlan& plan, std::size_t in_use);
// Throws cancelled if the user wants to stop; with a plan, also the task's failure.
void check_stop(const TrainingOptions& options);
void check_stop(const TrainingPlan& plan);
// Returns that error instead.
Error stop_of(const TrainingPlan& plan);

// A stop by the user of a task of a cluster, whose job saves before it ends.
class UserStop {
 public:
  static constexpr std::chrono::seconds kPatience{20};  // for the job to end; systems kill 30 s after a SIGTERM
  enum class Now { no, begins, goes_on };

  // `otherwise`: the patience if there are no checkpoints.
  explicit UserStop(const TrainingOptions& options, std::chrono::seconds otherwise = std::chrono::seconds(0))
      : patience_(options.checkpoint.empty() ? otherwise : kPatience) {}
  // Call it again and again. Throws like check_stop() once the job has had its time.
  Now check(const TrainingPlan& plan);

 private:
  std::chrono::seconds patience_;
  std::optional<std::chrono::steady_clock::time_point> since_;
};

}  // namespace troupe
