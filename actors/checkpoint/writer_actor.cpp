#include "troupe/actors/checkpoint/writer_actor.hpp"

namespace troupe {

CheckpointActorImpl::behavior_type CheckpointActorImpl::make_behavior() {
  return {
      [this](const WriteCheckpoint& message) {
        if (!over_) message.work->run();
      },
      [this](const Stop&) { quit(); },
  };
}

}  // namespace troupe
