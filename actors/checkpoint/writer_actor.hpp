// Writes checkpoints of a running job: files are slow, and nobody else may wait for them. Detached; one piece of work after the
// other.
#pragma once

#include "actors/introspection/counted.hpp"
#include "messages/local.hpp"
#include "messages/protocol.hpp"

namespace troupe {

// `work` does not throw.
struct WriteCheckpoint {
  using local_message = void;
  LocalHandle work;
};
using CheckpointActor = caf::typed_actor<caf::reacts_to<WriteCheckpoint>, caf::reacts_to<Stop>>;

class CheckpointActorImpl final : public Counted<CheckpointActor> {
 public:
  CheckpointActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record) : Counted(config, std::move(record)) {}
  behavior_type make_behavior() override;
};

}  // namespace troupe
