// The actor in front of a device: puts segments on the device's compute stream. Kernels run on the device's own threads.
#pragma once

#include "actors/introspection/counted.hpp"
#include "messages/protocol.hpp"

namespace troupe {

class Device;

class DeviceActorImpl final : public Counted<DeviceActor> {
 public:
  // The device outlives the actor.
  DeviceActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record, Device& device)
      : Counted(config, std::move(record)), device_(device) {}
  behavior_type make_behavior() override;

 private:
  Device& device_;
};

}  // namespace troupe
