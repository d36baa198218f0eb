#include "actors/session/device_actor.hpp"

#include "devices/device.hpp"

namespace troupe {

DeviceActorImpl::behavior_type DeviceActorImpl::make_behavior() {
  return {
      [this](const ExecuteSegment& message) { device_.compute().enqueue([work = message.work] { work->run(); }); },
      [this](const Stop&) { quit(); },
  };
}

}  // namespace troupe
