// This task's place in the groups of tasks that run collectives: carries contributions in, parts to and from other
// ranks, results out; to and from the device's communicator, if the group has one. The logic is GroupState. Its
// messages are short, so that it runs on the thread that brings them: a part is added where it arrives, while the next
// is on its way.
#pragma once

#include <map>
#include <set>

#include "actors/collective/contribution.hpp"
#include "actors/introspection/counted.hpp"
#include "actors/introspection/explainer.hpp"
#include "messages/protocol.hpp"
#include "scheduler/collective/group_state.hpp"

namespace troupe {

class CollectiveActorImpl final : public Counted<CollectiveActor> {
 public:
  // `allocate` gives memory for results, on any thread.
  CollectiveActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record, TaskName self,
                      RendezvousActor rendezvous, TensorAllocator allocate)
      : Counted(config, std::move(record)),
        self_(std::move(self)),
        rendezvous_(std::move(rendezvous)),
        allocate_(std::move(allocate)) {}
  behavior_type make_behavior() override;
  void on_exit() override;

 private:
  struct Group {
    std::vector<TaskName> members;
    GroupState state;
    std::map<CollectivePosition, std::shared_ptr<Contribution>> contributions;
    std::map<std::uint32_t, std::uint64_t> next;       // by channel, of contributions without a number
    std::shared_ptr<DeviceCommunicator> communicator;  // null: all tensors travel through the host
  };
  // What comes for a group that this task has not opened yet.
  struct Early {
    TaskName from;
    CollectivePart part;
  };

  GroupOpened open(const OpenGroup& message);
  void close(const CloseGroup& message);
  void contribute(const std::shared_ptr<Contribution>& contribution);
  void came(const TaskName& from, CollectivePart part);
  void keep(const TaskName& from, CollectivePart part);
  void forget_early(const TaskName& lost);
  void refuse(const TaskName& to, std::uint64_t group, const Error& error);
  void deliver(Group& group, GroupOutbox& out);
  void give_to_devices(Group& group, GroupOutbox::Launch launch);
  void answer(Contribution& contribution, Error error, std::vector<Tensor> result);
  void schedule_tick();
  void inspect(ActorDetails& out) const override;

  const TaskName self_;
  RendezvousActor rendezvous_;
  Explainer explainer_{record().registry.why()};
  TensorAllocator allocate_;
  std::map<TaskName, PeerActor> peers_;
  std::map<TaskName, std::vector<Frame>> waiting_;  // for the link to a peer that is not up yet
  std::map<TaskName, Error> down_;
  std::map<std::uint64_t, Group> groups_;
  std::set<std::uint64_t> closed_;
  std::map<std::uint64_t, std::uint64_t> generations_;  // by name and members: how many groups of them there were
  std::map<std::uint64_t, std::vector<Early>> early_;   // by group
  std::uint64_t early_bytes_ = 0;
  bool ticking_ = false;
};

}  // namespace troupe
