// Answers authenticated questions for the task's introspection address. Detached, so that a task whose control threads
// are all busy or stuck can still be inspected.
#pragma once

#include <troupe/actors/base/counted.hpp>
#include <troupe/actors/introspection/introspection.hpp>
#include <troupe/messages/caf/protocol.hpp>

namespace troupe {

class IntrospectorActorImpl final : public Counted<IntrospectorActor> {
 public:
  // `introspection` must outlive the actor.
  IntrospectorActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record, Introspection& introspection)
      : Counted(config, std::move(record)), introspection_(introspection) {}
  behavior_type make_behavior() override;

 private:
  Reply where() const;

  Introspection& introspection_;
};

}  // namespace troupe
