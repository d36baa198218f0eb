// How the actors of a job reach each other: peers by task, and actors of the same task.
#pragma once

#include <algorithm>
#include <caf/message.hpp>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/messages/caf/protocol.hpp>
#include <troupe/messages/type_name.hpp>
#include <troupe/scheduler/training/outgoing.hpp>

namespace troupe {

inline TaskName worker_task(std::uint32_t index) { return {"worker", static_cast<int>(index)}; }
inline TaskName shard_task(std::uint32_t index) { return {"ps", static_cast<int>(index)}; }
inline const TaskName kCoordinatorTask{"ps", 0};

// Returns the frame with the number of its job, if its kind has one.
inline Frame of_job(Frame frame, std::uint64_t job) {
  std::visit(
      [job](auto& f) {
        if constexpr (requires { f.job; }) f.job = job;
      },
      frame);
  return frame;
}

// Returns the frame with the view in which its worker joined, if its kind has both.
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

// The peers of a task, and the job's actors on it. Frames for the latter are delivered as if received from `self`.
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

  // Sends to one task; does nothing if that is not connected.
  template <class Tell>
  void reply(const TaskName& task, Frame frame, Tell&& tell) const {
    to_peer(task, of_job(std::move(frame), routes_.job), tell);
  }
  // Calls tell(actor, message) for each destination that is present. Throws internal for a frame that an actor of this
  // task should get but does not accept.
  template <class Tell>
  void deliver(Outgoing out, Tell&& tell) const {
    using Kind = Destination::Kind;
    Frame frame = of_job(std::move(out.message), routes_.job);
    switch (out.to.kind) {
      case Kind::worker:
        return to_peer(worker_task(out.to.index), std::move(frame), tell);
      case Kind::coordinator:
        if (self_ == kCoordinatorTask) return to_own(routes_.coordinator, "coordinator", std::move(frame), tell);
        return to_peer(kCoordinatorTask, std::move(frame), tell);
      case Kind::shards:
      case Kind::everyone:
        to_peers(frame, out.to.kind == Kind::everyone, tell);
        return to_own(routes_.shard, "shard", std::move(frame), tell);
    }
  }

 private:
  template <class Tell>
  void to_peer(const TaskName& task, Frame&& frame, Tell&& tell) const {
    if (const auto it = peers_.find(task); it != peers_.end()) tell(it->second, Outbound{std::move(frame)});
  }
  // All share one message.
  template <class Tell>
  void to_peers(const Frame& frame, bool workers, Tell&& tell) const {
    const auto is_for = [&](const auto& entry) {
      return entry.first.job == "ps" || (workers && entry.first.job == "worker");
    };
    if (std::ranges::none_of(peers_, is_for)) return;
    const caf::message message = caf::make_message(Outbound{frame});
    for (const auto& entry : peers_)
      if (is_for(entry)) tell(entry.second, message);
  }
  template <class Actor, class Tell>
  void to_own(const Actor& actor, std::string_view who, Frame&& frame, Tell&& tell) const {
    if (!actor) return;
    std::visit(
        [&]<class F>(F& f) {
          if constexpr (takes<Actor, Inbound<F>>)
            tell(actor, Inbound<F>{self_, std::move(f)});
          else
            fail(Code::internal, "{} sent its own {} a {}, which it does not accept", self_.to_string(), who,
                 type_name<F>());
        },
        frame);
  }

  TaskName self_;
  std::map<TaskName, PeerActor> peers_;
  JobRoutes routes_;
};

// Frames of a task to the coordinator, queued until the link is up.
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
