#include "apps/progress.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace troupe {
namespace {

constexpr int kWidth = 30;
constexpr const char* kEraseLine = "\r\x1b[K";

}  // namespace

std::string progress_bar(const std::string& label, std::uint64_t done, std::uint64_t total, int width) {
  const double share = total == 0 ? 1 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const int full = static_cast<int>(share * width);
  const std::string bar = std::string(static_cast<std::size_t>(full), '=') + (full < width ? ">" : "");
  const auto digits = std::to_string(total).size();
  return fmt::format("{} [{:<{}}] {:>{}}/{}", label, bar, width, done, digits, total);
}

std::optional<std::string> Progress::update(const std::string& label, std::uint64_t done, std::uint64_t total,
                                            Time now) {
  const auto interval = std::chrono::milliseconds(terminal_ ? 100 : 1000);
  if (!last_ && !terminal_) {
    last_ = now;  // short work prints nothing
    return std::nullopt;
  }
  if (last_ && now - *last_ < interval) return std::nullopt;
  last_ = now;
  if (!terminal_) return fmt::format("{}: step {} of {}\n", label, done, total);
  drawn_ = true;
  return kEraseLine + progress_bar(label, done, total, kWidth);
}

std::string Progress::clear() {
  if (!drawn_) return "";
  drawn_ = false;
  return kEraseLine;
}

}  // namespace troupe
