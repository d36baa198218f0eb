// The local end of the link to another task: an actor, so that actors still send messages to actors. Frames for the
// task go to the wire; frames that come go to the actors they are for. Its life is that of one connection.
//
// enqueue() passes frames on, on the thread of their sender: no thread is woken in between. What goes wrong there ends
// the link like any failure of the actor, and not its sender. Where those of a training
// job go the peer knows from JobRoutes; what comes before its actor is kept for it, up to 64 MiB. A frame of a job that
// is over on this task, or that is older than the one under way, is dropped.
//
// No frame is lost without a word. One that cannot travel, because it is larger than the limits, becomes an error where
// its receiver can take that (Put, CollectivePart); any other ends the link with the reason, as does more than can be
// kept.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>

#include <troupe/actors/base/counted.hpp>
#include <troupe/messages/caf/protocol.hpp>

namespace troupe {

class PeerActorImpl final : public Counted<PeerActor> {
 public:
  struct Links {
    std::function<Error(const Frame&)> send;  // to the wire; any thread
    std::function<void(const Error&)> close;  // likewise: ends the link; LinkLost follows
    LocalNodeActor node;
    SchedulerActor scheduler;
    RendezvousActor rendezvous;
    CollectiveActor collective;
  };
  PeerActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record, TaskName task, Links links)
      : Counted(config, std::move(record)),
        task_(std::move(task)),
        links_(std::move(links)),
        announced_(!links_.node) {}
  behavior_type make_behavior() override;
  void enqueue(caf::mailbox_element_ptr element, caf::execution_unit* host) override;
  using Counted::enqueue;

 private:
  void escalate(const Error& why) override { give_up(why); }
  struct Passage;

  void pass_out(const Outbound& outbound);
  void pass_in(FrameCame& came, caf::execution_unit* host);
  void send(const Frame& frame);
  void set_routes(const JobRoutes& routes);
  void keep(Frame frame);
  void give_up(const Error& why);
  void stop();

  const TaskName task_;
  const PackedTask packed_task_ = PackedTask::of(task_);
  const std::string to_ = packed_task_.to_string();
  const Links links_;
  std::atomic<bool> stopped_{false};
  std::atomic<bool> given_up_{false};
  std::mutex routes_mutex_;  // held while frames of a job are passed on: they keep their order
  // Frames wait until the node has told all others of this peer: it sends the routes when it has. Without a node they
  // do not.
  bool announced_;
  std::deque<FrameCame> unannounced_;
  JobRoutes routes_;
  std::uint64_t first_job_ = 0;  // jobs below it are over on this task
  std::deque<Frame> early_;      // of a job: a worker may be faster than the shard it pulls from
  std::size_t early_bytes_ = 0;
};

}  // namespace troupe
