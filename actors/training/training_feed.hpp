// The batches of a training, as a BatchFeed brings them and an input task makes them: both derive the same numbers and
// contents from the plan.
#pragma once

#include <functional>

#include <troupe/actors/data/batch_feed.hpp>
#include <troupe/actors/training/training_plan.hpp>

namespace troupe {

// `slots`: of a step, with backups. `in_use`: BatchPlan::in_use.
FeedService::Config feed_service(const TrainingPlan& plan, std::uint32_t slots, std::size_t in_use);

// For a worker, or a task that trains alone.
BatchFeed::Config feed_of_worker(const TrainingPlan& plan, std::uint32_t slots, std::size_t in_use,
                                 std::function<void()> wake = nullptr);

// The name of a training batch, and that of an evaluation's.
inline BatchName training_batch(std::uint32_t epoch, std::uint64_t step, std::uint32_t slot) {
  return {.epoch = epoch, .step = step, .slot = slot};
}
inline BatchName evaluation_batch(std::uint64_t number) { return {.evaluation = true, .step = number}; }

// Runs an input task's part in a training: makes batches for workers until they say that the training is over. Throws
// unavailable if no worker comes (back) in time, and the reason if all have left.
TrainingResult serve_inputs(const TrainingPlan& plan, std::uint32_t slots);

}  // namespace troupe
