// Writes checkpoints of a running job: files are slow, and nobody else may wait for them. Detached; one piece of work after the
// other.
#pragma once

#include <functional>

#include "actors/introspection/counted.hpp"
#include "messages/local.hpp"
#include "messages/protocol.hpp"

namespace troupe {

// `work` is not to throw.
struct WriteCheckpoint {
  using local_message = void;
  LocalHandle work;
};
using CheckpointActor = caf::typed_actor<caf::reacts_to<WriteCheckpoint>, caf::reacts_to<Stop>>;

class CheckpointActorImpl final : public Counted<CheckpointActor> {
 public:
  // `failed`: it has failed so often that it does no more.
  CheckpointActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record, std::function<void(const Error&)> failed)
      : Counted(config, std::move(record)), failed_(std::move(failed)) {}
  behavior_type make_behavior() override;

 private:
  void escalate(const Error& why) override {
    over_ = true;
    failed_(why);
  }

  std::function<void(const Error&)> failed_;
  bool over_ = false;
};

}  // namespace troupe
