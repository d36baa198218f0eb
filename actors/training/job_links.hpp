// How the actors of a job reach each other: peers by task, and their neighbours on the same task.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <troupe/messages/caf/protocol.hpp>
#include <troupe/scheduler/training/outgoing.hpp>

namespace troupe {

inline TaskName worker_task(std::uint32_t index) { return {"worker", static_cast<int>(index)}; }
inline TaskName shard_task(std::uint32_t index) { return {"ps", static_cast<int>(index)}; }
inline const TaskName kCoordinatorTask{"ps", 0};

// The same frame with the number of its job, if its kind has one.
inline Frame of_job(Frame frame, std::uint64_t job) {
  std::visit(
      [job](auto& f) {
        if constexpr (requires { f.job; }) f.job = job;
      },
      frame);
  return frame;
}

// The same, from the worker that is a member since `view`.
inline Frame of_member(Frame frame, std::uint64_t view) {
  std::visit(
      [view](auto& f) {
        if constexpr (requires {
                        f.worker;
                        f.view;
                      })
          f.view = view;
      },
      frame);
  return frame;
}

// The peers of a task, and the job's actors on it. `self` gives to those what would come from its own task.
class JobLinks {
 public:
  explicit JobLinks(TaskName self) : self_(std::move(self)) {}

  void up(const PeerUp& message) { peers_[message.task] = message.peer; }
  void down(const PeerDown& message) { peers_.erase(message.task); }
  void set(const JobRoutes& routes) { routes_ = routes; }
  void clear() {
    peers_.clear();
    routes_ = JobRoutes{};
  }

  std::uint64_t job() const { return routes_.job; }

  // To one task.
  template <class Tell>
  void reply(const TaskName& task, const Frame& frame, Tell&& tell) const {
    to_peer(task, frame, tell);
  }
  // Calls tell(actor, message) for everyone the frame is for; who is not there gets nothing.
  template <class Tell>
  void deliver(const Outgoing& out, Tell&& tell) const {
    using Kind = Destination::Kind;
    if (out.to.kind == Kind::worker) {
      to_peer(worker_task(out.to.index), out.message, tell);
    } else if (out.to.kind == Kind::coordinator) {
      if (self_ == kCoordinatorTask)
        to_own_coordinator(out.message, tell);
      else
        to_peer(kCoordinatorTask, out.message, tell);
    } else {
      for (const auto& [task, peer] : peers_)
        if (out.to.kind == Kind::everyone || task.job == "ps") tell(peer, Outbound{of_job(out.message, routes_.job)});
      to_own_shard(out.message, tell);
    }
  }

 private:
  template <class Tell>
  void to_peer(const TaskName& task, const Frame& frame, Tell&& tell) const {
    if (const auto it = peers_.find(task); it != peers_.end()) tell(it->second, Outbound{of_job(frame, routes_.job)});
  }
  template <class Tell>
  void to_own_coordinator(const Frame& frame, Tell&& tell) const {
    if (!routes_.coordinator) return;
    if (const auto* staged = std::get_if<Staged>(&frame)) tell(routes_.coordinator, Inbound<Staged>{self_, *staged});
    if (const auto* saved = std::get_if<Saved>(&frame)) tell(routes_.coordinator, Inbound<Saved>{self_, *saved});
  }
  template <class Tell>
  void to_own_shard(const Frame& frame, Tell&& tell) const {
    if (!routes_.shard) return;
    if (const auto* commit = std::get_if<Commit>(&frame)) tell(routes_.shard, Inbound<Commit>{self_, *commit});
    if (const auto* fence = std::get_if<Fence>(&frame)) tell(routes_.shard, Inbound<Fence>{self_, *fence});
    if (const auto* save = std::get_if<Save>(&frame)) tell(routes_.shard, Inbound<Save>{self_, *save});
    if (const auto* open = std::get_if<BarrierOpen>(&frame)) tell(routes_.shard, Inbound<BarrierOpen>{self_, *open});
    if (const auto* failed = std::get_if<JobFailed>(&frame)) tell(routes_.shard, Inbound<JobFailed>{self_, *failed});
  }

  TaskName self_;
  std::map<TaskName, PeerActor> peers_;
  JobRoutes routes_;
};

// What a task of the job says to the coordinator, before and after the link to that has come up.
class CoordinatorLink {
 public:
  template <class Tell>
  void say(const Outbound& message, Tell&& tell) {
    if (peer_)
      tell(peer_, message);
    else
      waiting_.push_back(message);
  }
  template <class Tell>
  void up(const PeerUp& message, Tell&& tell) {
    if (message.task != kCoordinatorTask) return;
    peer_ = message.peer;
    for (const Outbound& waiting : std::exchange(waiting_, {})) tell(peer_, waiting);
  }
  void down() { peer_ = nullptr; }

 private:
  PeerActor peer_;
  std::vector<Outbound> waiting_;
};

}  // namespace troupe
