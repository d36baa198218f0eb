#include "actors/introspection/introspector_actor.hpp"

namespace troupe {

IntrospectorActorImpl::behavior_type IntrospectorActorImpl::make_behavior() {
  return {
      [this](const IntrospectorRequest& request) { return answer(request); },
      [this](const Stop&) { quit(); },
  };
}

Reply IntrospectorActorImpl::answer(const IntrospectorRequest& request) const {
  if (const Error refused = introspection_.refuse(request.token)) return Reply::of(refused);
  const auto target = introspection_.target();
  if (!target) return Reply::of(Error(Code::unavailable, "this task has no introspector's socket"));
  return Reply::of(target->url());
}

}  // namespace troupe
