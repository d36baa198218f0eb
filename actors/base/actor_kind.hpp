// The kinds of actors: one table of what is known of each. An actor is made with its kind (spawn.hpp); a kind without a
// row does not compile.
//
// A handler should not throw. If one does, the request that it was handling is answered with the cause, and Counted
// does what the row says:
//
//   restart     the actor goes on with its next message, after a pause that grows. Only where nothing is lost but the
//               answer to the message.
//   escalate    its state cannot be trusted any more: whoever depends on it is told the actor and the cause, and ends.
//               So does an actor that restarts too often in a row (restarts.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace troupe {

// In the order in which people see them. A task stops its own actors in this order too.
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
  checkpoint,
  curves,
  peer,
  introspector,
};

// How far the failure of an actor reaches.
enum class FailureScope : std::uint8_t {
  actor,  // it ends; who asks it hears that
  link,   // the connection ends with the cause on both sides, and is made again
  job,    // the training job ends on all tasks, or, if it is a worker's, on its task
  task,   // all actors of the task end, its calls fail, and its connections end with the cause: to others the task is
          // lost
};

// Whether an actor has a thread of its own: for slow work, and for actors that restart, since they sleep meanwhile.
enum class ActorThread : std::uint8_t { shared, own };

struct ActorRole {
  ActorKind kind;
  std::string_view name;
  FailureScope escalates_to;
  ActorThread thread = ActorThread::shared;
  int restarts = 0;  // in a row, before it escalates
};

// Comments say what is lost with the actor.
inline constexpr std::array kActorRoles = {
    ActorRole{ActorKind::node, "node", FailureScope::task},                                        // peers, sessions
    ActorRole{ActorKind::scheduler, "scheduler", FailureScope::task},                              // steps in flight
    ActorRole{ActorKind::partition, "partition", FailureScope::actor},                             // a plan
    ActorRole{ActorKind::device, "device", FailureScope::task},                                    // the stream
    ActorRole{ActorKind::rendezvous, "rendezvous", FailureScope::task},                            // tensors under way
    ActorRole{ActorKind::collective, "collective", FailureScope::task},                            // places in groups
    ActorRole{ActorKind::coordinator, "coordinator", FailureScope::job},                           // members and tokens
    ActorRole{ActorKind::shard, "shard", FailureScope::job, ActorThread::own},                     // parameters
    ActorRole{ActorKind::worker, "worker", FailureScope::job},                                     // the worker's place
    ActorRole{ActorKind::checkpoint, "checkpoint", FailureScope::job, ActorThread::own, 5},        // nothing
    ActorRole{ActorKind::curves, "curves", FailureScope::actor, ActorThread::own, 5},              // nothing
    ActorRole{ActorKind::peer, "peer", FailureScope::link},                                        // early frames
    ActorRole{ActorKind::introspector, "introspector", FailureScope::actor, ActorThread::own, 5},  // nothing
};

// Not a constant for a kind that has no row; throws std::out_of_range then.
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
    "rows stand in the order of ActorKind, and who restarts has a thread of its own");

}  // namespace troupe
