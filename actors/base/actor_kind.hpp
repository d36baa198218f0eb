// The kinds of actors, in one table with the properties of each. An actor is made with its kind (spawn.hpp); a kind
// without a row does not compile.
//
// Handlers should not throw. If one does, the request being handled is answered with the cause, and Counted applies the
// policy in the row:
//
//   restart     the actor continues with its next message after a growing pause. Only for actors whose failure loses
//               nothing but the answer to the message.
//   escalate    the actor's state is no longer trusted: its dependents end, with the actor and the cause as the reason.
//               An actor that restarts too often in a row escalates too (restarts.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace troupe {

// In display order. A task also stops its own actors in this order.
enum class ActorKind : std::uint8_t {
  node,
  scheduler,
  partition,
  device,
  rendezvous,
  collective,
  coordinator,
  shard,
  worker,
  feed,
  input,
  reader,
  maker,
  checkpoint,
  curves,
  source,
  manager,
  loader,
  batcher,
  replica,
  router,
  peer,
  introspector,
};

// How far the failure of an actor reaches.
enum class FailureScope : std::uint8_t {
  actor,  // the actor ends; callers get an error
  link,   // the connection ends with the cause on both sides, and is made again
  job,    // the training job ends on all tasks or, if the actor is a worker's, on its task
  task,   // all actors of the task end, its calls fail, and its connections end with the cause: peers see the task as
          // lost
};

// Whether an actor has its own thread: for slow work, and for actors that restart, which sleep between attempts.
enum class ActorThread : std::uint8_t { shared, own };

struct ActorRole {
  ActorKind kind;
  std::string_view name;
  FailureScope escalates_to;
  ActorThread thread = ActorThread::shared;
  int restarts = 0;  // in a row, before escalating
};

// Comments name the state lost with the actor.
inline constexpr std::array kActorRoles = {
    ActorRole{ActorKind::node, "node", FailureScope::task},                                  // peers, sessions
    ActorRole{ActorKind::scheduler, "scheduler", FailureScope::task},                        // steps in flight
    ActorRole{ActorKind::partition, "partition", FailureScope::actor},                       // a plan
    ActorRole{ActorKind::device, "device", FailureScope::task},                              // the stream
    ActorRole{ActorKind::rendezvous, "rendezvous", FailureScope::task},                      // tensors under way
    ActorRole{ActorKind::collective, "collective", FailureScope::task},                      // membership of groups
    ActorRole{ActorKind::coordinator, "coordinator", FailureScope::job},                     // members and tokens
    ActorRole{ActorKind::shard, "shard", FailureScope::job, ActorThread::own},               // parameters
    ActorRole{ActorKind::worker, "worker", FailureScope::job},                               // the worker's membership
    ActorRole{ActorKind::feed, "feed", FailureScope::job},                                   // batches asked for
    ActorRole{ActorKind::input, "input", FailureScope::task},                                // feeds, batches kept
    ActorRole{ActorKind::reader, "reader", FailureScope::task, ActorThread::own},            // places in files
    ActorRole{ActorKind::maker, "maker", FailureScope::task, ActorThread::own},              // a batch
    ActorRole{ActorKind::checkpoint, "checkpoint", FailureScope::job, ActorThread::own, 5},  // nothing
    ActorRole{ActorKind::curves, "curves", FailureScope::actor, ActorThread::own, 5},        // nothing
    ActorRole{ActorKind::source, "source", FailureScope::task, ActorThread::own, 5},         // nothing
    ActorRole{ActorKind::manager, "manager", FailureScope::task},                     // which versions are loaded
    ActorRole{ActorKind::loader, "loader", FailureScope::actor, ActorThread::own},    // a version
    ActorRole{ActorKind::batcher, "batcher", FailureScope::actor, ActorThread::own},  // requests that wait
    ActorRole{ActorKind::replica, "replica", FailureScope::task},                     // requests of routers
    ActorRole{ActorKind::router, "router", FailureScope::task},                       // requests under way
    ActorRole{ActorKind::peer, "peer", FailureScope::link},                           // early frames
    ActorRole{ActorKind::introspector, "introspector", FailureScope::actor, ActorThread::own, 5},  // nothing
};

// Not a constant expression for a kind without a row: throws std::out_of_range.
constexpr const ActorRole& role_of(ActorKind kind) { return kActorRoles.at(static_cast<std::size_t>(kind)); }

static_assert(
    [] {
      for (std::size_t i = 0; i < kActorRoles.size(); ++i) {
        const ActorRole& role = kActorRoles[i];
        if (static_cast<std::size_t>(role.kind) != i) return false;
        if (role.restarts > 0 && role.thread != ActorThread::own) return false;
      }
      return true;
    }(),
    "rows stand in the order of ActorKind, and actors that restart have their own thread");

}  // namespace troupe
