// The introspector of a task: tells what its actors do, without asking them: it reads their records. Detached, so that a
// task whose control threads are all busy or stuck can still be looked into.
#pragma once

#include "actors/introspection/counted.hpp"
#include "messages/protocol.hpp"

namespace troupe {

class IntrospectorActorImpl final : public Counted<IntrospectorActor> {
 public:
  // `registry` outlives the actor.
  IntrospectorActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record, const ActorRegistry& registry)
      : Counted(config, std::move(record)), registry_(registry) {}
  behavior_type make_behavior() override;

 private:
  const ActorRegistry& registry_;
};

}  // namespace troupe
