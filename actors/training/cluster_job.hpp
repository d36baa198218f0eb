// A training job of a cluster with parameter servers: what all its tasks work out alike, and how each takes part.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <troupe/actors/training/job_links.hpp>
#include <troupe/actors/training/training_plan.hpp>
#include <troupe/actors/training/worker_actor.hpp>
#include <troupe/graph/passes/shard_map.hpp>
#include <troupe/graph/passes/shard_variables.hpp>
#include <troupe/scheduler/training/token_book.hpp>

namespace troupe {

inline constexpr std::chrono::milliseconds kPollInterval{200};  // to see that the user wants to stop
inline constexpr std::chrono::seconds kWaitWord{5};             // between two about the same wait
inline constexpr std::chrono::seconds kReasonPatience{1};       // why a job has failed may be on its way
inline constexpr int kTokensAhead = 2;                          // of a worker

// All tasks work these out for themselves; the fingerprint shows whether they came to the same.
struct ClusterJob {
  // Throws failed_precondition if the cluster lacks tasks, invalid_argument for options that make no sense.
  explicit ClusterJob(const TrainingPlan& plan);

  std::vector<TaskName> shard_names() const;
  std::vector<std::uint32_t> owning_shards() const;  // of at least one slice

  TrainingGraph graph;
  std::uint32_t workers = 0, shards = 0, slots = 1, backups = 0;
  std::uint32_t max_workers = 0;  // ClusterSpec::max_workers
  std::uint64_t steps_per_epoch = 0;
  TrainingMode mode = TrainingMode::synchronous;
  ShardMap map;
  ShardedGraph sharded;
  std::string settings;
  std::uint64_t fingerprint = 0;
};

// A task takes part in a job until that is over, or until it cannot go on because of others. Then it tries again: the
// same job, if that may still be under way, or the next, in which everyone returns to where it can go on.
struct Attempt {
  std::uint64_t after = 0;  // it joins a later job than this
  std::uint64_t job = 0;    // the number of the job in which it has taken part, once it has joined
  std::chrono::nanoseconds join_timeout{};
  bool progress = false;  // something has been computed or stored
  bool over = false;      // the job is over for all
};

// Waits for the answer to a Join, routes the job's frames and returns it. Throws why the task was turned away.
// `prepare` is called before the first frame of the job can come.
Joined await_joined(const TrainingPlan& plan, Attempt& attempt, WorkerMailbox& mailbox, Incarnation incarnation,
                    JobRoutes routes, const std::function<void(const Joined&)>& prepare = nullptr);
// After a Leave: until the coordinator's task has answered, a Join that nobody has taken may still meet a job that
// begins there.
void await_left(WorkerMailbox& mailbox, Incarnation incarnation);
// The exception that is being handled is the reason; or the failure of the task, which ends steps with other errors.
Leave leave_of(const Join& join, const Task& task);

// What a ps task does in a job, until that is over. Throws what ended it.
void serve_shard(const TrainingPlan& plan, const ClusterJob& job, Attempt& attempt);
// What a worker does.
TrainingResult work_in_job(const TrainingPlan& plan, const ClusterJob& job, Attempt& attempt);

}  // namespace troupe
