#include "apps/mnist/report.hpp"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

namespace troupe {

using Json = nlohmann::ordered_json;

std::string epoch_json(const EpochDone& epoch) {
  return Json{{"event", "epoch"},
              {"epoch", epoch.epoch + 1},
              {"loss", epoch.loss},
              {"train_accuracy", epoch.train_accuracy},
              {"test_accuracy", epoch.test_accuracy},
              {"images_per_second", epoch.images_per_second}}
      .dump();
}

std::string final_json(const TrainingResult& result) {
  return Json{{"event", "final"},
              {"test_accuracy", result.test_accuracy},
              {"steps", result.steps},
              {"seconds", result.seconds},
              {"images_per_second", result.images_per_second},
              {"params_sha256", result.params_sha256}}
      .dump();
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

std::string final_text(const TrainingResult& result) {
  return fmt::format("{} steps in {:.2f} s, {:.0f} images/s, parameters {}\nTest accuracy: {:.4f}", result.steps,
                     result.seconds, result.images_per_second, result.params_sha256, result.test_accuracy);
}

}  // namespace troupe
