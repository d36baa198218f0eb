#include "troupe/actors/cluster/local_devices.hpp"

#include <algorithm>
#include <utility>

#include <troupe/devices/device.hpp>
#include <troupe/devices/kernel.hpp>

namespace troupe {

DeviceInfo info_of(const Device& device, const KernelRegistry& kernels) {
  const DeviceAttributes& attributes = device.attributes();
  const auto list = kernels.list(attributes.type);
  return {attributes.name, attributes.type, attributes.memory_bytes, {list.begin(), list.end()}};
}

void LocalDevices::add(LocalDevice device) {
  const std::lock_guard lock(mutex_);
  if (device.device->attributes().type == "CPU")
    next_ = std::max(next_, device.device->attributes().name.index.value_or(0) + 1);
  devices_.push_back(std::move(device));
}

void LocalDevices::remove(const Device& device) {
  const std::lock_guard lock(mutex_);
  std::erase_if(devices_, [&](const LocalDevice& d) { return d.device.get() == &device; });
}

std::optional<LocalDevice> LocalDevices::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  for (const LocalDevice& d : devices_)
    if (d.device->attributes().name.to_string() == name) return d;
  return std::nullopt;
}

std::vector<LocalDevice> LocalDevices::list() const {
  const std::lock_guard lock(mutex_);
  return devices_;
}

std::vector<std::shared_ptr<Device>> LocalDevices::devices() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Device>> out;
  for (const LocalDevice& d : devices_) out.push_back(d.device);
  return out;
}

int LocalDevices::next_index() {
  const std::lock_guard lock(mutex_);
  return next_++;
}

void LocalDevices::drop_actors() {
  const std::lock_guard lock(mutex_);
  for (LocalDevice& d : devices_) d.actor = nullptr;
}

}  // namespace troupe
