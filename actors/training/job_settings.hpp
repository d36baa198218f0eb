// The settings that all tasks of a training job must agree on, and a job with the checkpoint it resumes from, as lines
// "name=value".
#pragma once

#include <cstdint>
#include <string>

#include <troupe/actors/training/training_plan.hpp>

namespace troupe {

// `slots` and `backups`: per step. `shards` 0: the job has no parameter servers.
std::string job_settings(const TrainingPlan& plan, std::uint32_t slots, std::uint32_t backups, std::uint32_t workers,
                         std::uint32_t shards);

// The libraries of a graph's ops, each as "\nop_library_NAME=VERSION SHA256".
std::string library_settings(const Graph& graph);

// The settings stored in checkpoints: all but the number of tasks and epochs, the graph and its libraries of ops. Modes
// local and sync compute the same and count as one.
std::string settings_to_keep(const std::string& settings);

}  // namespace troupe
