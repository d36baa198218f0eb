#include "troupe/messages/device_name.hpp"

#include <algorithm>
#include <charconv>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

// Plug-ins bring devices of any type, also to other tasks: placement checks whether there is one. "/job" and its like
// are names of parts that lack their value.
bool is_device_type(std::string_view text) {
  const auto fits = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; };
  return !text.empty() && text.size() <= 16 && text.front() >= 'A' && text.front() <= 'Z' &&
         std::ranges::all_of(text, fits) && text != "JOB" && text != "TASK" && text != "DEVICE";
}

std::optional<int> parse_index(std::string_view text, std::string_view whole) {
  if (text == "*") return std::nullopt;
  int value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size() || value < 0)
    invalid_argument("device '{}': '{}' is not an index", whole, text);
  return value;
}

void parse_type(DeviceName& out, std::string_view text, std::string_view whole) {
  const auto colon = text.find(':');
  const auto type = text.substr(0, colon);
  if (type.empty()) invalid_argument("device '{}': missing device type", whole);
  if (type != "*") {
    out.type = std::string(type);
    for (char& c : *out.type) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    if (!is_device_type(*out.type))
      invalid_argument(
          "device '{}': '{}' is not a type of device; expected CPU, GPU or that of a plug-in, as in \"GPU:0\" or "
          "\"/job:worker/task:1/device:CPU:0\"",
          whole, type);
  }
  if (colon != std::string_view::npos) out.index = parse_index(text.substr(colon + 1), whole);
}

template <class T>
bool merge_field(std::optional<T>& into, const std::optional<T>& from) {
  if (!from) return true;
  if (into) return *into == *from;
  into = from;
  return true;
}

}  // namespace

std::string TaskName::to_string() const { return fmt::format("/job:{}/task:{}", job, index); }

DeviceName DeviceName::parse(std::string_view text) {
  DeviceName out;
  std::string_view rest = text;
  while (!rest.empty()) {
    if (rest.front() == '/') rest.remove_prefix(1);
    const auto slash = rest.find('/');
    const auto part = rest.substr(0, slash);
    rest = slash == std::string_view::npos ? std::string_view{} : rest.substr(slash);
    if (part.starts_with("job:")) {
      if (part.size() == 4) invalid_argument("device '{}': missing job", text);
      if (part.substr(4) != "*") out.job = std::string(part.substr(4));
    } else if (part.starts_with("task:")) {
      out.task = parse_index(part.substr(5), text);
    } else if (part.starts_with("device:")) {
      parse_type(out, part.substr(7), text);
    } else if (!part.empty() && rest.empty()) {
      parse_type(out, part, text);
    } else {
      invalid_argument("device '{}': expected /job:NAME/task:N/device:TYPE:N, any part of which may be left out", text);
    }
  }
  return out;
}

DeviceName DeviceName::of(const TaskName& task, std::string type, int index) {
  return DeviceName{task.job, task.index, std::move(type), index};
}

TaskName DeviceName::task_name() const { return TaskName{job.value_or(""), task.value_or(0)}; }

bool DeviceName::matches(const DeviceName& c) const {
  return (!job || job == c.job) && (!task || task == c.task) && (!type || type == c.type) &&
         (!index || index == c.index);
}

std::optional<DeviceName> DeviceName::merged(const DeviceName& other) const {
  DeviceName out = *this;
  if (!merge_field(out.job, other.job) || !merge_field(out.task, other.task) || !merge_field(out.type, other.type) ||
      !merge_field(out.index, other.index))
    return std::nullopt;
  return out;
}

DeviceName DeviceName::or_else(const DeviceName& outer) const {
  DeviceName out = *this;
  if (!out.job) out.job = outer.job;
  if (!out.task) out.task = outer.task;
  if (!out.type) out.type = outer.type;
  if (!out.index) out.index = outer.index;
  return out;
}

std::string DeviceName::to_string() const {
  std::string text;
  if (job) text += "/job:" + *job;
  if (task) text += "/task:" + std::to_string(*task);
  if (type || index)
    text += "/device:" + type.value_or("*") + ":" + (index ? std::to_string(*index) : std::string("*"));
  return text;
}

}  // namespace troupe
