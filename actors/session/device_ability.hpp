// Whether the devices of a group's tasks can exchange tensors themselves: each says what it is, and all come to the
// same answer.
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
  std::string why_not;      // it has one that cannot: why
};

// Of a task's device, null: it has none. Throws nothing.
DeviceAbility ability_of(Device* device);

// As bytes of always the same number, for an all-gather; long texts are cut. Reading throws invalid_argument.
Tensor to_tensor(const DeviceAbility& ability);
DeviceAbility to_ability(const Tensor& tensor);

// None: they can. Else the reason, which names ranks; "": no task has such a device.
std::optional<std::string> why_apart(const std::vector<DeviceAbility>& abilities, const std::vector<TaskName>& members);

}  // namespace troupe
