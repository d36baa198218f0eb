// Spawns actors according to the table of kinds (actor_kind.hpp).
#pragma once

#include <caf/actor_system.hpp>
#include <memory>
#include <string>
#include <utility>

#include <troupe/actors/base/actor_kind.hpp>
#include <troupe/actors/base/actor_record.hpp>

namespace troupe {

// `Impl` derives from Counted; `args` follow its record. `name` distinguishes actors of one kind.
template <ActorKind kKind, class Impl, class... Args>
auto spawn_actor(caf::actor_system& system, ActorRegistry& registry, std::string name, Args&&... args) {
  constexpr ActorThread kThread = role_of(kKind).thread;
  std::shared_ptr<ActorRecord> record = registry.add(kKind, std::move(name));
  if constexpr (kThread == ActorThread::own)
    return system.spawn<Impl, caf::detached>(std::move(record), std::forward<Args>(args)...);
  else
    return system.spawn<Impl>(std::move(record), std::forward<Args>(args)...);
}

}  // namespace troupe
