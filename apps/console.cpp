#include "apps/console.hpp"

#include <fmt/core.h>

#include "apps/training_report.hpp"

namespace troupe {

void Console::print(std::FILE* stream, const std::string& line) {
  std::lock_guard lock(mutex_);
  fmt::print(err_, "{}", progress_.clear());
  std::fputs((line + "\n").c_str(), stream);
  std::fflush(stream);  // a reader may be waiting for it; end_output() reports failures
}

void Console::begin(const std::string& what) {
  if (!options_.speaks() || options_.json) return;
  const std::string precision =
      options_.compiled.precision == DType::f32 ? "" : fmt::format(", in {}", name(options_.compiled.precision));
  print(out_, fmt::format("Training {}: mode {}, {} epochs, batches of {}{}", what, name(options_.training.mode),
                          options_.training.epochs, options_.training.batch, precision));
}

void Console::progress(std::uint32_t epoch, std::uint64_t step, std::uint64_t steps, Progress::Time now) {
  if (!options_.speaks()) return;
  std::lock_guard lock(mutex_);
  const std::string label = fmt::format("Epoch {}/{}", epoch + 1, options_.training.epochs);
  const auto text = progress_.update(label, step, steps, now);
  if (!text) return;
  std::fputs(text->c_str(), err_);
  std::fflush(err_);
}

void Console::event(const JobEvent& event) {
  if (options_.json)
    print(out_, event_json(event, std::chrono::system_clock::now()));
  else if (!event.text.empty())
    note(event.text);
}

void Console::note(const std::string& message) { print(err_, fmt::format("{}: {}", program_, message)); }

}  // namespace troupe
