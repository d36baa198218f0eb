#include "troupe/actors/serving/replica.hpp"

#include <algorithm>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>

#include <troupe/actors/base/spawn.hpp>
#include <troupe/actors/cluster/task_actors.hpp>
#include <troupe/actors/serving/replica_actor.hpp>
#include <troupe/messages/caf/instances.hpp>

namespace troupe {
namespace {

// For requests that routers sent before they knew that it drains.
constexpr std::chrono::milliseconds kUnderWay{100};

}  // namespace

class Replica::Impl {
 public:
  Impl(Task& given, ModelServer& server, Complete complete)
      : task(given),
        actor(spawn_actor<ActorKind::replica, ReplicaActorImpl>(task.system(), task.actors(), task.name().to_string(),
                                                                server, calls, changes, std::move(complete))) {
    caf::anon_send(task.handles().node, ServingRoutes{.replica = actor});
    caf::anon_send(task.handles().node, Observe{caf::actor_cast<PeerObserver>(actor)});
  }
  ~Impl() {
    caf::anon_send(actor, DrainReplica{});
    calls->await_alone(kUnderWay);
    calls->end_all();
    if (task.handles().node) caf::anon_send(task.handles().node, ServingRoutes{});
    caf::anon_send(actor, Stop{});
    caf::scoped_actor self(task.system());
    self->wait_for(actor);  // it uses the server
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Task& task;
  const std::shared_ptr<ReplicaCalls> calls = std::make_shared<ReplicaCalls>();
  const std::shared_ptr<ReplicaChanges> changes = std::make_shared<ReplicaChanges>();
  ReplicaActor actor;
};

Replica::Replica(Task& task, ModelServer& server, Complete complete)
    : impl_(std::make_unique<Impl>(task, server, std::move(complete))) {}
Replica::~Replica() = default;

bool Replica::drain(std::chrono::nanoseconds farewell, std::chrono::nanoseconds timeout) {
  const auto until = std::chrono::steady_clock::now() + timeout;
  impl_->calls->await_alone(std::min(farewell, timeout));
  caf::anon_send(impl_->actor, DrainReplica{});
  impl_->calls->await_alone(kUnderWay);
  return impl_->calls->await_idle(until - std::chrono::steady_clock::now());
}

void Replica::refresh() { caf::anon_send(impl_->actor, Tick{}); }

bool Replica::change(const std::function<void()>& change) { return impl_->changes->own(change); }

}  // namespace troupe
