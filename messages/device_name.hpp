// Names of tasks and devices: /job:worker/task:0/device:CPU:0, any part of which may be left open in a constraint.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

// A process of the cluster.
struct TaskName {
  std::string job{};
  int index = 0;
  auto operator<=>(const TaskName&) const = default;
  std::string to_string() const;  // "/job:worker/task:0"
};

// A full or partial device name. Merging fills open fields.
struct DeviceName {
  std::optional<std::string> job{};
  std::optional<int> task{};
  std::optional<std::string> type{};  // "CPU", "GPU"
  std::optional<int> index{};

  // Also accepts the short forms "CPU:0", "/CPU:0", "/device:GPU:*", "" (no constraint). Throws invalid_argument.
  static DeviceName parse(std::string_view text);
  static DeviceName of(const TaskName& task, std::string type, int index);

  bool complete() const { return job && task && type && index; }
  TaskName task_name() const;  // needs job and task
  // Does `concrete` satisfy this constraint?
  bool matches(const DeviceName& concrete) const;
  // Both constraints at once, field by field; nullopt if a field differs.
  std::optional<DeviceName> merged(const DeviceName& other) const;
  // This constraint, with the fields it leaves open taken from `outer`.
  DeviceName or_else(const DeviceName& outer) const;

  std::string to_string() const;
  auto operator<=>(const DeviceName&) const = default;
};

}  // namespace troupe
