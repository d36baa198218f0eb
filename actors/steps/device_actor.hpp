// The actor in front of a device. Its mailbox is the device's compute stream: a segment is on that stream before the
// send returns, and the device's own threads run it without an intermediate actor thread.
#pragma once

#include <troupe/actors/base/counted.hpp>
#include <troupe/messages/caf/protocol.hpp>

namespace troupe {

class Device;

class DeviceActorImpl final : public Counted<DeviceActor> {
 public:
  DeviceActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record, std::shared_ptr<Device> device)
      : Counted(config, std::move(record)), device_(std::move(device)) {}
  behavior_type make_behavior() override;
  void enqueue(caf::mailbox_element_ptr element, caf::execution_unit* host) override;

 private:
  // `by_sender`: the calling thread is the sender's, which may run the work itself.
  void put_on_stream(const ExecuteSegment& message, bool by_sender);

  const std::shared_ptr<Device> device_;
  std::atomic<bool> stopped_{false};
};

}  // namespace troupe
