#include "troupe/actors/base/restarts.hpp"

namespace troupe {
namespace {

constexpr std::chrono::milliseconds kFirstRestartPause{10};  // doubles with each failure
constexpr std::chrono::seconds kNewRow{10};

}  // namespace

std::optional<Restarts::Clock::duration> Restarts::after_failure(Clock::time_point now) {
  if (row_ > 0 && now - last_ >= kNewRow) row_ = 0;
  last_ = now;
  if (row_ == limit_) return std::nullopt;
  return kFirstRestartPause * (1 << row_++);
}

}  // namespace troupe
