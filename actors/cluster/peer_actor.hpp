// The local end of the link to another task: an actor, so that actors still send messages to actors. Frames for the task go
// to the wire; frames that come go to the actors they are for. Its life is that of one connection.
//
// For a frame that leaves, and one of a step or a collective that comes, the peer needs nothing that changes: enqueue() passes it on, on the
// thread of its sender, and no thread is woken in between. Frames of a training job go through the mailbox: the peer knows
// from JobRoutes where they go.
#pragma once

#include <atomic>
#include <deque>
#include <functional>

#include "actors/introspection/counted.hpp"
#include "messages/protocol.hpp"

namespace troupe {

class PeerActorImpl final : public Counted<PeerActor> {
 public:
  struct Links {
    std::function<Error(const Frame&)> send;  // to the wire; any thread
    LocalNodeActor node;
    SchedulerActor scheduler;
    RendezvousActor rendezvous;
    CollectiveActor collective;
  };
  PeerActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record, TaskName task, Links links)
      : Counted(config, std::move(record)), task_(std::move(task)), links_(std::move(links)) {}
  behavior_type make_behavior() override;
  void enqueue(caf::mailbox_element_ptr element, caf::execution_unit* host) override;
  using Counted::enqueue;

 private:
  struct Router;
  struct Passage;

  void send(const Frame& frame);
  void came(const Frame& frame);
  // To the actor of the job, or kept for it: a worker may be faster than the shard it pulls from.
  template <class Actor, class F>
  void to_job(const Actor& actor, const F& frame);

  void stop();

  const TaskName task_;
  const Links links_;
  std::atomic<bool> stopped_{false};
  JobRoutes routes_;
  std::deque<Frame> early_;
};

}  // namespace troupe
