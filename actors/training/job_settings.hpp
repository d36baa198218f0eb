// What the tasks of a training job must agree on, and a job with the one whose checkpoint it takes, as lines
// "name=value".
#pragma once

#include <cstdint>
#include <string>

#include <troupe/actors/training/training_plan.hpp>

namespace troupe {

// `slots` and `backups` of a step; `shards` 0: the job has no parameter servers.
std::string job_settings(const TrainingPlan& plan, std::uint32_t slots, std::uint32_t backups, std::uint32_t workers,
                         std::uint32_t shards);

// Those that follow a job into its checkpoints. Not: on how many tasks it runs, and how many epochs it is to have.
// Modes local and sync compute the same: to a checkpoint they are one.
std::string settings_to_keep(const std::string& settings);

}  // namespace troupe
