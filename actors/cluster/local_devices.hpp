// The devices of a task, with the actors in front of them: those that it has from the start, and private ones, which
// come and go (private_device.hpp). Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include <troupe/actors/steps/step.hpp>
#include <troupe/graph/placement/placement.hpp>

namespace troupe {

class KernelRegistry;

// The device as placement sees it.
DeviceInfo info_of(const Device& device, const KernelRegistry& kernels);

class LocalDevices {
 public:
  // The device is seen by introspection, and graphs can be registered on it, from now on.
  void add(LocalDevice device);
  void remove(const Device& device);
  // By its full name.
  std::optional<LocalDevice> find(std::string_view name) const;
  std::vector<LocalDevice> list() const;
  std::vector<std::shared_ptr<Device>> devices() const;
  // Of the next private device: none has it twice.
  int next_index();
  // Lets go of the actors: the task ends.
  void drop_actors();

 private:
  mutable std::mutex mutex_;
  std::vector<LocalDevice> devices_;
  int next_ = 0;
};

}  // namespace troupe
