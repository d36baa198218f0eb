// What a ps task begins with, and how it saves: from and to checkpoints, while its shard serves.
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

// The actors of a job have it after serve_shard() has returned: nothing in it refers to the plan.
class ShardKeeper {
 public:
  // `failed`: as of CheckpointKeeper.
  ShardKeeper(const TrainingPlan& plan, const ClusterJob& job, std::function<void(const Error&)> failed);

  // The values of the shard, and what else it knows, are those of the checkpoint. Throws as restore().
  void begin_with(Checkpoint& from);
  // Those of this process's training before.
  void begin_with(const ShardValues& from);
  ShardValues values(const ShardState::Cut& cut) const;
  // On the shard's thread, between two updates: what is read are handles. `say` is called when they are written.
  void save(const Save& request, const ShardState::Cut& cut, std::function<void(const Saved&)> say) const;
  // On the coordinator's: all shards have saved. `done` is called when that is a checkpoint, or cannot become one.
  void commit(const SaveRound& round, std::uint64_t steps_per_epoch, std::function<void()> done) const;
  // Of TrainingOptions::provenance. open_history(): `start` is set. What is written next is in order; flushed, it
  // survives a crash.
  void open_history() const;
  void write_history(std::vector<Provenance> versions, bool flush) const;
  void write_commits(const CommitLog& commits) const;
  void tell(const JobEvent& event) const {
    if (on_event) on_event(event);
  }

  const ShardMap map;
  const std::map<std::string, UpdateRule> rules;
  const std::function<void(const JobEvent&)> on_event;
  const CheckpointKeeper checkpoints;
  const std::string provenance;  // a directory; "": none
  const std::shared_ptr<ParameterStore> store;
  const int shard;
  std::uint32_t shards = 0;    // that own anything
  std::uint32_t position = 0;  // of this among them
  bool owns = false;
  // Set before the actors are told of the job.
  ShardState::Cut start;
  std::uint64_t job = 0;
  // At the end, before this task hears of it.
  ShardState::Cut end;
  JobState end_state;  // on the coordinator's task

 private:
  // Runs on the writer's thread; what fails is told, and no more is written.
  void write(std::function<void(std::optional<ProvenanceLog>&)> what) const;

  CheckpointManifest form_;
  const std::shared_ptr<std::optional<ProvenanceLog>> log_ =
      std::make_shared<std::optional<ProvenanceLog>>();  // the writer's
};

}  // namespace troupe
