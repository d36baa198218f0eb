#include "troupe/actors/training/progress.hpp"

#include <fmt/core.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cmath>

namespace troupe {
namespace {

constexpr int kShortBar = 10, kBar = 30;  // columns between the brackets
constexpr int kColumns = 80;              // of a terminal that does not know
constexpr const char* kEraseLine = "\r\x1b[K";

// "12 s", "3:25", "1:02:45".
std::string duration_text(double seconds) {
  const auto all = static_cast<std::uint64_t>(std::min(std::ceil(seconds), 1e9));
  if (all < 60) return fmt::format("{} s", all);
  if (all < 3600) return fmt::format("{}:{:02}", all / 60, all % 60);
  return fmt::format("{}:{:02}:{:02}", all / 3600, all / 60 % 60, all % 60);
}

std::string value_text(double value) {
  const bool small = value != 0 && std::abs(value) < 1e-3;
  return small ? fmt::format("{:.4e}", value) : fmt::format("{:.4f}", value);
}

// The time left in the epoch, or the speed if its length is unknown; "" if not known yet.
std::string pace_text(const StepProgress& at, double rate) {
  if (rate <= 0 || (at.steps > 0 && at.step >= at.steps)) return "";
  if (at.steps == 0) return fmt::format("{:.{}f} steps/s", rate, rate < 10 ? 1 : 0);
  return duration_text(static_cast<double>(at.steps - at.step) / rate) + " left";
}

std::string bar_text(const StepProgress& at, int width) {
  const int full = static_cast<int>(std::min<std::uint64_t>(
      static_cast<std::uint64_t>(static_cast<double>(at.step) / static_cast<double>(at.steps) * width),
      static_cast<std::uint64_t>(width)));
  const std::string bar = std::string(static_cast<std::size_t>(full), '=') + (full < width ? ">" : "");
  return fmt::format(" [{:<{}}] {:>{}}/{}", bar, width, at.step, std::to_string(at.steps).size(), at.steps);
}

// Figures that do not fit are left out, the last ones first; the bar is shorter before one is.
std::string terminal_text(const StepProgress& at, int epochs, double rate, std::size_t columns) {
  std::string figures;
  std::vector<std::size_t> ends{0};
  for (const auto& [name, value] : at.figures()) {
    figures += fmt::format("  {} {}", name, value_text(value));
    ends.push_back(figures.size());
  }
  const std::string pace = pace_text(at, rate);
  const auto text = [&](int width) {
    std::string out = fmt::format("Epoch {}/{}", at.epoch + 1, epochs);
    out += at.steps > 0 ? bar_text(at, width) : fmt::format("  {} steps", at.step);
    return pace.empty() ? out : out + "  " + pace;
  };
  const auto rest = static_cast<int>(text(0).size() + figures.size());
  std::string out = text(std::clamp(static_cast<int>(columns) - rest, kShortBar, kBar));
  while (ends.size() > 1 && out.size() + ends.back() > columns) ends.pop_back();
  out += figures.substr(0, ends.back());
  return out.substr(0, columns);
}

std::string line_text(const StepProgress& at, int epochs, double rate) {
  std::string out = fmt::format("Epoch {}/{}: step {}", at.epoch + 1, epochs, at.step);
  if (at.steps > 0) out += fmt::format(" of {}", at.steps);
  if (const std::string pace = pace_text(at, rate); !pace.empty()) out += ", " + pace;
  for (const auto& [name, value] : at.figures()) out += fmt::format(", {} {}", name, value_text(value));
  return out + "\n";
}

int columns_of(std::FILE* terminal) {
  winsize size{};
  const bool known = ::ioctl(::fileno(terminal), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kColumns;
}

}  // namespace

std::optional<std::string> Progress::update(const StepProgress& at, int epochs, int columns, Time now) {
  const double steps_per_second = rate(at, now);
  if (!last_ && !terminal_) last_ = now;  // short work prints nothing
  if (last_ && now - *last_ < (terminal_ ? std::chrono::milliseconds(100) : std::chrono::seconds(10)))
    return std::nullopt;
  last_ = now;
  if (!terminal_) return line_text(at, epochs, steps_per_second);
  drawn_ = true;
  // A line that fills the last column is wrapped by some terminals.
  return kEraseLine + terminal_text(at, epochs, steps_per_second, static_cast<std::size_t>(std::max(1, columns - 1)));
}

double Progress::rate(const StepProgress& at, Time now) {
  if (epoch_ != at.epoch || at.step < first_step_) {
    epoch_ = at.epoch;
    first_step_ = at.step;
    first_time_ = now;
  }
  const double seconds = std::chrono::duration<double>(now - first_time_).count();
  return seconds > 0 ? static_cast<double>(at.step - first_step_) / seconds : 0;
}

std::string Progress::clear() {
  if (!drawn_) return "";
  drawn_ = false;
  return kEraseLine;
}

void ProgressLine::update(const StepProgress& at, int epochs, Progress::Time now) {
  const std::lock_guard lock(mutex_);
  const auto text = progress_.update(at, epochs, terminal_ ? columns_of(err_) : 0, now);
  if (!text) return;
  std::fputs(text->c_str(), err_);
  std::fflush(err_);
}

void ProgressLine::print(std::FILE* stream, const std::string& line) {
  const std::lock_guard lock(mutex_);
  std::fputs(progress_.clear().c_str(), err_);
  std::fputs((line + "\n").c_str(), stream);
  std::fflush(stream);
}

void ProgressLine::clear() {
  const std::lock_guard lock(mutex_);
  std::fputs(progress_.clear().c_str(), err_);
}

}  // namespace troupe
