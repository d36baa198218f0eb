// Whether the devices of a group's tasks can exchange tensors directly: each task describes its device, and all reach
// the same decision.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <troupe/devices/device.hpp>
#include <troupe/messages/device_name.hpp>

namespace troupe {

struct DeviceAbility {
  bool there = false;       // the task has a device for it
  std::string description;  // CommunicatorMaker::description
  std::string identity;     // CommunicatorMaker::identity
  std::string why_not;      // why its device cannot; "": it can
};

// The ability of a task's device (null: no device). Does not throw.
DeviceAbility ability_of(Device* device);

// Encodes as a fixed number of bytes, for an all-gather; long texts are truncated. Decoding throws invalid_argument.
Tensor to_tensor(const DeviceAbility& ability);
DeviceAbility to_ability(const Tensor& tensor);

// None if they can. Otherwise the reason, naming ranks; "": no task has such a device.
std::optional<std::string> why_apart(const std::vector<DeviceAbility>& abilities, const std::vector<TaskName>& members);

}  // namespace troupe
