#include "apps/console.hpp"

#include <fmt/core.h>

#include "apps/training_report.hpp"

namespace troupe {

void Console::begin(const std::string& what) {
  if (!options_.speaks() || options_.json) return;
  const std::string precision =
      options_.compiled.precision == DType::f32 ? "" : fmt::format(", in {}", name(options_.compiled.precision));
  line_.print(out_, fmt::format("Training {}: mode {}, {} epochs, batches of {}{}", what, name(options_.training.mode),
                                options_.training.epochs, options_.training.batch, precision));
}

void Console::progress(const StepProgress& at, Progress::Time now) {
  if (at.chief) line_.update(at, options_.training.epochs, now);
}

void Console::event(const JobEvent& event) {
  if (options_.json)
    line_.print(out_, event_json(event, std::chrono::system_clock::now()));
  else if (!event.text.empty())
    note(event.text);
}

void Console::note(const std::string& message) { line_.print(err_, fmt::format("{}: {}", program_, message)); }

}  // namespace troupe
