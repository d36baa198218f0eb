// Shared by all training modes: the model to build, the options, the state, and when to stop.
#pragma once

#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/training/job.hpp>
#include <troupe/actors/training/parameters.hpp>
#include <troupe/actors/training/training_state.hpp>
#include <troupe/devices/storage/file_system.hpp>
#include <troupe/graph/training/towers.hpp>
#include <troupe/kernels/readers/dataset.hpp>
#include <troupe/scheduler/training/shard_state.hpp>

namespace troupe {

// Protocol guards, which tests turn off to show that they notice (scheduler/training).
struct TrainingGuards {
  ShardGuards shard;
  bool members = true;  // JobOptions::fence
};

struct TrainingPlan {
  const Sequential& layers;
  Shape input;
  Loss loss = Loss::sparse_softmax_cross_entropy;
  const Optimizer& optimizer;
  std::optional<LossScaling> loss_scaling;
  double clip_norm = 0;  // 0: gradients are not clipped
  const DataSplits& data;
  const TrainingOptions& options;
  TrainingState& state;  // read at the start, updated at the end
  Task& task;
  FileSystem& files = posix_file_system();  // of checkpoints; outlives the task
  TrainingGuards guards = {};
};

// Trains in one process, with all slots as towers of one graph.
TrainingResult train_locally(const TrainingPlan& plan);
// Runs this task's part in a cluster: a worker computes, a ps task serves its shard. Returns when the job is over.
TrainingResult train_in_cluster(const TrainingPlan& plan);
// Runs this rank's part in a cluster of workers only, each with all variables. Returns when all ranks have ended, with
// the same parameters.
TrainingResult train_by_all_reduce(const TrainingPlan& plan);

// Throws invalid_argument for invalid options, or a training set smaller than one step.
void check_training(const TrainingPlan& plan, int slots);
// Throws cancelled if the user wants to stop; with a plan, also the task's failure.
void check_stop(const TrainingOptions& options);
void check_stop(const TrainingPlan& plan);
// Returns that error instead.
Error stop_of(const TrainingPlan& plan);

inline constexpr std::int64_t kEvaluationChunk = 1000;  // examples

}  // namespace troupe
