#include "actors/introspection/introspector_actor.hpp"

namespace troupe {

IntrospectorActorImpl::behavior_type IntrospectorActorImpl::make_behavior() {
  return {
      [this](const SnapshotRequest&) { return Reply::of(registry_.snapshot()); },
      [this](const Stop&) { quit(); },
  };
}

}  // namespace troupe
