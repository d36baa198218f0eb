#include "actors/checkpoint/writer_actor.hpp"

namespace troupe {

CheckpointActorImpl::behavior_type CheckpointActorImpl::make_behavior() {
  return {
      [](const WriteCheckpoint& message) { message.work->run(); },
      [this](const Stop&) { quit(); },
  };
}

}  // namespace troupe
