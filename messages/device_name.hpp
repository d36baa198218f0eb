// Names of tasks and devices: /job:worker/task:0/device:CPU:0; constraints may leave out any part.
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
  TaskName task_name() const;  // requires job and task
  // Whether `concrete` satisfies this constraint.
  bool matches(const DeviceName& concrete) const;
  // Combines both constraints field by field; nullopt if a field differs.
  std::optional<DeviceName> merged(const DeviceName& other) const;
  // This constraint, with open fields filled from `outer`.
  DeviceName or_else(const DeviceName& outer) const;

  std::string to_string() const;
  auto operator<=>(const DeviceName&) const = default;
};

}  // namespace troupe
