// The coordinator of a training job, an actor on ps/0: membership, tokens, barriers. The protocol is Coordinator.
#pragma once

#include "actors/introspection/counted.hpp"
#include "actors/training/job_links.hpp"
#include "scheduler/training/coordinator.hpp"

namespace troupe {

class CoordinatorActorImpl final : public Counted<CoordinatorActor> {
 public:
  CoordinatorActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record, TaskName self, JobOptions options)
      : Counted(config, std::move(record)), coordinator_(std::move(options), steady_now_ns()), links_(std::move(self)) {}
  behavior_type make_behavior() override;

 private:
  // Sends what the protocol says; a refused message is answered to its worker.
  void deliver(TrainingOutbox& out, const TaskName& from, const Error& error);
  void schedule_tick();

  Coordinator coordinator_;
  JobLinks links_;
  std::int64_t next_tick_ = 0;  // ns; 0: none is to come
};

}  // namespace troupe
