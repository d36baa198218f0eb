#include "apps/serve/report.hpp"

#include <fmt/core.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include <troupe/actors/http/json_text.hpp>

namespace troupe {

void ServeReport::print(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);  // end_output() reports failures
  std::fflush(stdout);
}

void ServeReport::note(const std::string& text) {
  const std::lock_guard lock(mutex_);
  fmt::print(stderr, "{}: {}\n", kServeProgram, text);
}

void ServeReport::event(const nlohmann::json& event) {
  if (!json_) return;
  const std::lock_guard lock(mutex_);
  if (!ready_) return later_.push_back(json_text(event));
  print(json_text(event));
}

void ServeReport::ready(const nlohmann::json& event) {
  if (!json_) return;
  const std::lock_guard lock(mutex_);
  ready_ = true;
  print(json_text(event));
  for (const std::string& line : std::exchange(later_, {})) print(line);
}

void ServeReport::state(const ServableManager::Status& status) {
  const std::string who = status.id.to_string();
  nlohmann::json out{
      {"event", "version"}, {"model", status.id.model}, {"version", status.id.version}, {"state", name(status.state)}};
  if (status.error) out["error"] = status.error.message();
  event(out);
  if (status.state == ServableState::ready)
    note(fmt::format("{} is ready, {:.1f} MiB", who, static_cast<double>(status.bytes) / (1 << 20)));
  else if (status.state == ServableState::unloaded)
    note(fmt::format("{} is unloaded", who));
  else if (status.error)
    note(fmt::format("{} is {}: {}", who, name(status.state), status.error.message()));
}

}  // namespace troupe
