#include "troupe/actors/cluster/private_device.hpp"

#include <algorithm>
#include <caf/send.hpp>
#include <thread>

#include <troupe/actors/base/spawn.hpp>
#include <troupe/actors/cluster/local_devices.hpp>
#include <troupe/actors/cluster/task_actors.hpp>
#include <troupe/actors/steps/device_actor.hpp>
#include <troupe/devices/cpu/cpu_device.hpp>
#include <troupe/messages/caf/instances.hpp>

namespace troupe {

PrivateDevice::PrivateDevice(Task& task, const PrivateDeviceOptions& options) : task_(task) {
  if (!task.handles().node)
    fail(Code::failed_precondition, "task {} has shut down: it gets no more devices", task.name().to_string());
  const int threads =
      options.threads > 0 ? options.threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  LocalDevices& all = task.local_devices();
  device_ = make_cpu_device({.name = DeviceName::of(task.name(), "CPU", all.next_index()),
                             .threads = threads,
                             .memory_limit = options.memory_limit,
                             .alone = alone_});
  all.add({device_, spawn_actor<ActorKind::device, DeviceActorImpl>(task.system(), task.actors(),
                                                                    device_->attributes().name.to_string(), device_)});
}

const DeviceInfo& PrivateDevice::info() const {
  std::call_once(listed_, [this] { info_ = info_of(*device_, task_.kernels()); });
  return info_;
}

PrivateDevice::~PrivateDevice() {
  if (const auto own = task_.local_devices().find(device_->attributes().name.to_string()); own && own->actor)
    caf::anon_send(own->actor, Stop{});
  task_.local_devices().remove(*device_);
  device_->shutdown();
}

}  // namespace troupe
