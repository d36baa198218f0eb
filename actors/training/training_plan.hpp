// What the ways of training share: the model to build, the options, the starting values, where to stop.
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

// Each can be left out by tests, which show that they notice (scheduler/training).
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
  TrainingState& state;  // where it begins, and what it leaves
  Task& task;
  FileSystem& files = posix_file_system();  // of checkpoints; outlives the task
  TrainingGuards guards = {};
};

// One process, all slots: towers in one graph.
TrainingResult train_locally(const TrainingPlan& plan);
// This task's part in a cluster: a worker computes, a ps task serves its shard. Returns when the job is over.
TrainingResult train_in_cluster(const TrainingPlan& plan);
// This rank's part in a cluster of workers alone, each with all variables. Returns when all ranks have ended, with the
// same parameters.
TrainingResult train_by_all_reduce(const TrainingPlan& plan);

// Throws invalid_argument for options that make no sense, or a training set without one whole step.
void check_training(const TrainingPlan& plan, int slots);
// Throws cancelled if the user wants to stop; of a plan, also why the task has failed.
void check_stop(const TrainingOptions& options);
void check_stop(const TrainingPlan& plan);
// The same, returned.
Error stop_of(const TrainingPlan& plan);

inline constexpr std::int64_t kEvaluationChunk = 1000;  // examples

}  // namespace troupe
