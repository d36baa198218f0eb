// This task's membership in groups of tasks that run collectives: takes contributions, exchanges parts with other
// ranks, and delivers results; uses the device's communicator if the group has one. The logic is in GroupTable.
// Messages are short, so the actor runs on the delivering thread: a part is added where it arrives, while the next is
// in flight.
#pragma once

#include <map>

#include <troupe/actors/base/counted.hpp>
#include <troupe/actors/base/explainer.hpp>
#include <troupe/actors/steps/contribution.hpp>
#include <troupe/messages/caf/protocol.hpp>
#include <troupe/scheduler/collective/group_table.hpp>

namespace troupe {

class CollectiveActorImpl final : public Counted<CollectiveActor> {
 public:
  // `allocate` returns memory for results; it may be called on any thread.
  CollectiveActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record, TaskName self,
                      RendezvousActor rendezvous, TensorAllocator allocate)
      : Counted(config, std::move(record)),
        self_(std::move(self)),
        rendezvous_(std::move(rendezvous)),
        table_(self_, std::move(allocate)) {}
  behavior_type make_behavior() override;
  void on_exit() override;

 private:
  // Per-group state outside the protocol.
  struct Hands {
    std::map<CollectivePosition, std::shared_ptr<Contribution>> contributions;
    std::map<std::uint32_t, std::uint64_t> next;       // by channel, for contributions without a sequence number
    std::shared_ptr<DeviceCommunicator> communicator;  // null if all tensors travel through the host
  };

  void escalate(const Error& why) override;
  GroupOpened open(const OpenGroup& message);
  void close(const CloseGroup& message);
  void contribute(const std::shared_ptr<Contribution>& contribution);
  void deliver(GroupTable::Outbox& out);
  void give_to_devices(std::uint64_t group, GroupOutbox::Launch launch);
  void answer(Contribution& contribution, Error error, std::vector<Tensor> result);
  void schedule_tick();
  std::int64_t now() const { return std::chrono::nanoseconds(clock().now().time_since_epoch()).count(); }
  void inspect(ActorDetails& out) const override;

  const TaskName self_;
  RendezvousActor rendezvous_;
  Explainer explainer_{record().registry.why()};
  GroupTable table_;
  std::map<std::uint64_t, Hands> hands_;  // by group
  std::map<TaskName, PeerActor> peers_;
  bool ticking_ = false;
};

}  // namespace troupe
