#include "troupe/actors/introspection/introspector_actor.hpp"

namespace troupe {

IntrospectorActorImpl::behavior_type IntrospectorActorImpl::make_behavior() {
  return {
      [this](const Asked& message) { message.answer->give(where()); },
      [this](const Stop&) { quit(); },
  };
}

Reply IntrospectorActorImpl::where() const {
  const auto target = introspection_.target();
  if (!target) return Reply::of(Error(Code::unavailable, "this task has no introspection port"));
  return Reply::of(target->url());
}

}  // namespace troupe
