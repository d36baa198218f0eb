// A training job of a cluster with parameter servers: the setup that all tasks derive alike, and how each task takes
// part.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/training/job_links.hpp>
#include <troupe/actors/training/training_plan.hpp>
#include <troupe/actors/training/worker_actor.hpp>
#include <troupe/graph/passes/shard_map.hpp>
#include <troupe/graph/passes/shard_variables.hpp>
#include <troupe/scheduler/training/token_book.hpp>

namespace troupe {

inline constexpr std::chrono::milliseconds kPollInterval{200};  // between checks for a stop by the user
inline constexpr std::chrono::seconds kWaitWord{5};             // between messages about one wait
inline constexpr std::chrono::seconds kReasonPatience{1};       // for the reason of a failure to arrive
inline constexpr int kTokensAhead = 2;                          // that a worker holds or has requested

// Each task derives these independently; equal fingerprints show that all agree.
struct ClusterJob {
  // Throws failed_precondition if the cluster lacks ps tasks or workers, invalid_argument for invalid options.
  explicit ClusterJob(const TrainingPlan& plan);

  std::vector<TaskName> shard_names() const;
  std::vector<std::uint32_t> owning_shards() const;  // with at least one slice
  std::uint32_t phases() const { return static_cast<std::uint32_t>(graph.phases.size()); }
  std::uint32_t phase_of(const std::string& variable) const { return phase_of_.at(variable); }

  ModeFields options;
  const ParameterServers& servers;  // of plan.options.mode, which must have them
  TrainingGraph graph;
  std::uint32_t workers = 0, shards = 0, slots = 1, backups = 0;
  std::uint32_t max_workers = 0;  // ClusterSpec::max_workers
  std::optional<std::uint64_t> steps_per_epoch;
  TrainingMode mode = TrainingMode::synchronous;
  ShardMap map;
  ShardedGraph sharded;
  std::string settings;
  std::uint64_t fingerprint = 0;

 private:
  std::map<std::string, std::uint32_t> phase_of_;  // by updated variable
};

// A task takes part in a job until it is over, or until other tasks prevent it from continuing. Then it tries again:
// the same job if that may still be running, otherwise the next one, in which all tasks return to a point they can
// resume from.
struct Attempt {
  std::uint64_t after = 0;  // joins only jobs with a higher number
  std::uint64_t job = 0;    // number of the joined job; 0: none
  std::chrono::nanoseconds join_timeout{};
  bool progress = false;    // something was computed or stored
  bool over = false;        // the job is over for all tasks
  std::uint64_t steps = 0;  // of the whole job, once it has ended well
  std::uint32_t epochs = 0;
};

// Waits for the answer to a Join, routes the job's frames and returns the answer. Throws the reason if the task is
// refused. `prepare` is called before the first frame of the job can arrive.
Joined await_joined(const TrainingPlan& plan, Attempt& attempt, WorkerMailbox& mailbox, Incarnation incarnation,
                    JobRoutes routes, const std::function<void(const Joined&)>& prepare = nullptr);
// After a Leave: waits for the coordinator's task to answer. Until then a pending Join may still be taken by a job that
// starts there.
void await_left(WorkerMailbox& mailbox, Incarnation incarnation);
// The reason is the exception being handled, or the task's failure, which makes steps fail with other errors.
Leave leave_of(const Join& join, const Task& task);

// Whether a task that left a job for this reason takes part again once the others are back.
inline bool comes_back(const ParameterServers& servers, const Error& why) {
  return servers.on_loss != OnLoss::fail && (why.code() == Code::unavailable || why.code() == Code::aborted);
}

// Runs a ps task's part in a job until that is over. Throws the error that ended it.
void serve_shard(const TrainingPlan& plan, const ClusterJob& job, Attempt& attempt);
// Runs a worker's part.
TrainingResult work_in_job(const TrainingPlan& plan, const ClusterJob& job, Attempt& attempt);

}  // namespace troupe
