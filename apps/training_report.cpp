#include "apps/training_report.hpp"

#include <nlohmann/json.hpp>

namespace troupe {

using Json = nlohmann::ordered_json;

std::string figures_json(const EpochLogs& epoch) {
  Json json{{"event", "epoch"}, {"epoch", epoch.epoch + 1}};
  for (const auto& [name, value] : epoch.figures) json[name] = value;
  json["examples_per_second"] = epoch.examples_per_second;
  return json.dump();
}

std::string figures_json(const Figures& figures, const TrainingResult& result) {
  Json json{{"event", "final"}};
  for (const auto& [name, value] : figures) json[name] = value;
  json["steps"] = result.steps;
  json["examples_per_second"] = result.examples_per_second;
  json["params_sha256"] = result.params_sha256;
  return json.dump();
}

std::string event_json(const JobEvent& event, std::chrono::system_clock::time_point time) {
  const auto since = std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch());
  Json json{{"event", event.kind}, {"time", static_cast<double>(since.count()) / 1e6}};
  if (!event.task.job.empty()) json["task"] = event.task.to_string();
  json["step"] = event.step;
  json["seconds"] = event.seconds;
  if (!event.text.empty()) json["text"] = event.text;
  if (!event.counts.empty()) json["counts"] = event.counts;
  return json.dump();
}

}  // namespace troupe
