#include "troupe/actors/training/training_report.hpp"

#include <fmt/core.h>

#include <cmath>
#include <cstdio>
#include <utility>

namespace troupe {
namespace {

void write(const std::string& line) { fmt::print(stderr, "troupe: {}\n", line); }

}  // namespace

std::string to_string(const EpochDone& epoch, int epochs) {
  return fmt::format("Epoch {}/{}: loss {:.4f}, train accuracy {:.4f}, test accuracy {:.4f}, {:.0f} images/s",
                     epoch.epoch + 1, epochs, epoch.loss, epoch.train_accuracy, epoch.test_accuracy,
                     epoch.images_per_second);
}

TrainingOptions with_reports(TrainingOptions options) {
  if (!options.on_event && !options.quiet)
    options.on_event = [](const JobEvent& event) {
      if (!event.text.empty()) write(event.text);
    };
  std::function<void(const EpochDone&)> told = options.on_epoch;
  if (!told && !options.quiet)
    told = [epochs = options.epochs](const EpochDone& epoch) { write(to_string(epoch, epochs)); };
  options.on_epoch = [told, on_event = options.on_event, warned = false](const EpochDone& epoch) mutable {
    if (!std::isfinite(epoch.loss) && !std::exchange(warned, true) && on_event)
      on_event({.kind = "not_finite",
                .task = {},
                .step = epoch.steps,
                .text = fmt::format("the loss of epoch {} is {}: the parameters are no longer usable; try a smaller "
                                    "learning rate, or ModelOptions::clip_norm",
                                    epoch.epoch + 1, epoch.loss),
                .counts = {}});
    if (told) told(epoch);
  };
  return options;
}

void tell_warning(const TrainingOptions& options, const std::string& kind, const std::string& text) {
  if (options.on_event) options.on_event({.kind = kind, .task = {}, .text = text, .counts = {}});
}

}  // namespace troupe
