#include "apps/mnist/report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace troupe {

namespace {

// 0 without a test set.
double test_accuracy(const Figures& figures) {
  const auto found = std::ranges::find(figures, "val_accuracy", &Figures::value_type::first);
  return found == figures.end() ? 0 : found->second;
}

}  // namespace

using Json = nlohmann::ordered_json;

std::string epoch_json(const EpochLogs& epoch) {
  return Json{{"event", "epoch"},
              {"epoch", epoch.epoch + 1},
              {"loss", epoch["loss"]},
              {"train_accuracy", epoch["accuracy"]},
              {"test_accuracy", test_accuracy(epoch.figures)},
              {"images_per_second", epoch.examples_per_second}}
      .dump();
}

std::string final_json(const TrainingResult& result) {
  return Json{{"event", "final"},
              {"test_accuracy", test_accuracy(result.figures)},
              {"steps", result.steps},
              {"seconds", result.seconds},
              {"images_per_second", result.examples_per_second},
              {"params_sha256", result.params_sha256}}
      .dump();
}

std::string final_text(const TrainingResult& result) {
  return fmt::format("{} steps in {:.2f} s, {:.0f} images/s, parameters {}\nTest accuracy: {:.4f}", result.steps,
                     result.seconds, result.examples_per_second, result.params_sha256, test_accuracy(result.figures));
}

}  // namespace troupe
