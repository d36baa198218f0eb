// How a ps task starts from checkpoints, and saves while its shard serves.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <troupe/actors/training/checkpoint_keeper.hpp>
#include <troupe/actors/training/cluster_job.hpp>
#include <troupe/actors/training/job_checkpoints.hpp>
#include <troupe/actors/training/provenance_log.hpp>
#include <troupe/scheduler/training/save_rounds.hpp>

namespace troupe {

// Actors of a job may hold it after serve_shard() has returned: it does not refer to the plan.
class ShardKeeper {
 public:
  // `failed`: as in CheckpointKeeper.
  ShardKeeper(const TrainingPlan& plan, const ClusterJob& job, std::function<void(const Error&)> failed);

  // Starts with the values and the cut in a checkpoint. Throws like restore() and restored_cut().
  void begin_with(Checkpoint& from);
  // Starts with the values of this process's previous training.
  void begin_with(const ShardValues& from);
  ShardValues values(const ShardState::Cut& cut) const;
  // Call it on the shard's thread, between two updates: it takes handles. `say` is called when they are written.
  void save(const Save& request, const ShardState::Cut& cut, std::function<void(const Saved&)> say) const;
  // Call it on the coordinator's thread when all shards have saved. `done` is called when the checkpoint is committed
  // or has failed.
  void commit(const SaveRound& round, std::uint64_t steps_per_epoch, std::function<void()> done) const;
  // Write TrainingOptions::provenance. open_history() needs `start`. Later writes are in order; flushed ones survive a
  // crash.
  void open_history() const;
  void write_history(std::vector<Provenance> versions, bool flush) const;
  void write_commits(const CommitLog& commits) const;
  void tell(const JobEvent& event) const {
    if (on_event) on_event(event);
  }

  const ShardMap map;
  const std::map<std::string, UpdateRule> rules;
  // By variable on demand: the first values of its rows and those of its slots.
  const std::map<std::string, std::vector<RowDraws>> draws;
  const std::function<void(const JobEvent&)> on_event;
  const CheckpointKeeper checkpoints;
  const std::string provenance;  // a directory; "": none
  const std::shared_ptr<ParameterStore> store;
  const int shard;
  const std::uint64_t phases;  // of a step
  std::uint32_t shards = 0;    // those that own anything
  std::uint32_t position = 0;  // of this shard among them
  bool owns = false;
  // Set before the actors learn of the job.
  ShardState::Cut start;
  std::uint64_t job = 0;
  // Set at the end, before this task learns of it.
  ShardState::Cut end;
  JobState end_state;  // on the coordinator's task

 private:
  // Runs on the writer's thread; a failure is reported and ends the log.
  void write(std::function<void(std::optional<ProvenanceLog>&)> what) const;

  CheckpointManifest form_;
  const std::shared_ptr<std::optional<ProvenanceLog>> log_ =
      std::make_shared<std::optional<ProvenanceLog>>();  // the writer's
};

}  // namespace troupe
