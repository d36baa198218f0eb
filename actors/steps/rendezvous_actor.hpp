// The meeting point of a task: tensors wait here for consumers, consumers for tensors. The logic is RendezvousTable.
#pragma once

#include <troupe/actors/base/counted.hpp>
#include <troupe/messages/caf/protocol.hpp>
#include <troupe/scheduler/run/rendezvous_table.hpp>

namespace troupe {

class RendezvousActorImpl final : public Counted<RendezvousActor> {
 public:
  RendezvousActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record, SchedulerActor scheduler)
      : Counted(config, std::move(record)), scheduler_(std::move(scheduler)) {}
  behavior_type make_behavior() override;

 private:
  void inspect(ActorDetails& out) const override;

  SchedulerActor scheduler_;
  RendezvousTable table_;
};

}  // namespace troupe
