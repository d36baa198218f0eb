#include "troupe/actors/training/training_report.hpp"

#include <fmt/core.h>

#include <cmath>
#include <cstdio>
#include <utility>

namespace troupe {
namespace {

void write(const std::string& line) { fmt::print(stderr, "troupe: {}\n", line); }

}  // namespace

std::string to_string(const EpochLogs& epoch, int epochs) {
  std::string text = fmt::format("Epoch {}/{}:", epoch.epoch + 1, epochs);
  for (const auto& [name, value] : epoch.figures) text += fmt::format(" {} {:.4f},", name, value);
  return text + fmt::format(" {:.0f} examples/s", epoch.examples_per_second);
}

TrainingOptions with_reports(TrainingOptions options) {
  if (!options.on_event && !options.quiet)
    options.on_event = [](const JobEvent& event) {
      if (!event.text.empty()) write(event.text);
    };
  std::function<void(const EpochLogs&)> told = options.on_epoch;
  if (!told && !options.quiet)
    told = [epochs = options.epochs](const EpochLogs& epoch) { write(to_string(epoch, epochs)); };
  options.on_epoch = [told, on_event = options.on_event, warned = false](const EpochLogs& epoch) mutable {
    const bool finite = epoch.figures.empty() || std::isfinite(epoch.figures.front().second);
    if (!finite && !std::exchange(warned, true) && on_event)
      on_event({.kind = "not_finite",
                .task = {},
                .step = epoch.steps,
                .text = fmt::format("the loss of epoch {} is {}: the parameters are no longer usable; try a smaller "
                                    "learning rate, or ModelOptions::clipping",
                                    epoch.epoch + 1, epoch.figures.front().second),
                .counts = {}});
    if (told) told(epoch);
  };
  return options;
}

void tell_warning(const TrainingOptions& options, const std::string& kind, const std::string& text) {
  if (options.on_event) options.on_event({.kind = kind, .task = {}, .text = text, .counts = {}});
}

}  // namespace troupe
