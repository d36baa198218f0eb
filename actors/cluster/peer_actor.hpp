// The local end of the link to another task: an actor, so that actors still send messages to actors. Frames for the task go
// to the wire; frames that come go to the actors they are for. Its life is that of one connection.
//
// enqueue() passes frames on, on the thread of their sender: no thread is woken in between. Where those of a training job go
// the peer knows from JobRoutes; what comes before its actor is kept for it.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>

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
  struct Passage;

  void send(const Frame& frame);
  void set_routes(const JobRoutes& routes);
  void stop();

  const TaskName task_;
  const Links links_;
  std::atomic<bool> stopped_{false};
  std::mutex routes_mutex_;  // held while frames of a job are passed on: they keep their order
  JobRoutes routes_;
  std::deque<Frame> early_;  // of a job: a worker may be faster than the shard it pulls from
};

}  // namespace troupe
