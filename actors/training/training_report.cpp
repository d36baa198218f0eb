#include "troupe/actors/training/training_report.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <utility>

#include <troupe/actors/training/progress.hpp>

namespace troupe {
std::string to_string(const EpochLogs& epoch, int epochs) {
  std::string text = fmt::format("Epoch {}/{}:", epoch.epoch + 1, epochs);
  for (const auto& [name, value] : epoch.figures) text += fmt::format(" {} {:.4f},", name, value);
  return text + fmt::format(" {:.0f} examples/s", epoch.examples_per_second);
}

TrainingOptions with_reports(TrainingOptions options) {
  // Also clears the bar before what others print.
  const auto console = std::make_shared<ProgressLine>(stderr, ::isatty(STDERR_FILENO) == 1);
  const auto write = [console](const std::string& text) { console->print(stderr, fmt::format("troupe: {}", text)); };
  if (!options.on_event && !options.quiet)
    options.on_event = [write](const JobEvent& event) {
      if (!event.text.empty()) write(event.text);
    };
  std::function<void(const EpochLogs&)> told = options.on_epoch;
  if (!told && !options.quiet)
    told = [write, epochs = options.epochs](const EpochLogs& epoch) { write(to_string(epoch, epochs)); };
  if (!options.on_progress && !options.quiet)
    options.on_progress = [console, epochs = options.epochs](const StepProgress& at) {
      if (at.chief) console->update(at, epochs, std::chrono::steady_clock::now());
    };
  options.on_epoch = [console, told, on_event = options.on_event, warned = false](const EpochLogs& epoch) mutable {
    console->clear();
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
