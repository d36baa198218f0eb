// The local end of a link to another task, as an actor, so that actors only ever send to actors. Outgoing frames go to
// the wire, incoming frames to their receiving actors. Lives as long as one connection.
//
// enqueue() forwards frames on the sender's thread, without waking a thread. An error there ends the link, like any
// failure of the actor, and does not affect the sender. JobRoutes names the receivers of a training job's frames; up to
// 64 MiB of frames are kept for receivers that do not exist yet. Drops frames of a job that is over on this task, or
// older than the current one.
//
// No frame is lost silently. A frame over the size limits becomes an error if its receiver can take one (Put,
// CollectivePart, BatchMade); any other such frame ends the link with the reason, as does exceeding the 64 MiB.
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
    std::function<void(const Error&)> close;  // any thread; ends the link, LinkLost follows
    LocalNodeActor node;
    SchedulerActor scheduler;
    RendezvousActor rendezvous;
    CollectiveActor collective;
    InputActor input = {};  // of an input task
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
  std::mutex routes_mutex_;  // held while frames of a job are forwarded, to keep their order
  // Frames are kept until the node has announced this peer to all others and sent the routes. Without a node they are
  // not kept.
  bool announced_;
  std::deque<FrameCame> unannounced_;
  JobRoutes routes_;
  ServingRoutes serving_;
  std::uint64_t first_job_ = 0;  // jobs with smaller numbers are over on this task
  std::deque<Frame> early_;      // of a job: a worker may start before the shard it pulls from
  std::size_t early_bytes_ = 0;
};

}  // namespace troupe
