#include "tools/bench/load_run.hpp"

#include <algorithm>
#include <cmath>

#include <troupe/messages/error.hpp>

namespace troupe::bench {
namespace {

LoadClock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<LoadClock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

double LoadFigures::rate() const { return seconds > 0 ? static_cast<double>(latencies.size()) / seconds : 0; }

double LoadFigures::percentile(double part) const {
  if (latencies.empty())
    fail(Code::unavailable, "no request was answered{}{}", first_failure.empty() ? "" : ": ", first_failure);
  const double rank = std::ceil(part * static_cast<double>(latencies.size()));
  return latencies[std::clamp<std::size_t>(static_cast<std::size_t>(rank), 1, latencies.size()) - 1];
}

const LoadFigures& LoadFigures::all_right() const {
  if (failed > 0)
    fail(Code::internal, "{} of {} requests failed, the first: {}", failed, failed + latencies.size(), first_failure);
  return *this;
}

LoadRun::LoadRun(const LoadPlan& plan, Time now) : plan_(plan), began_(now), last_(now) {
  if (!(plan.rate >= 0) || !(plan.seconds >= 0))
    invalid_argument("a load of {} requests per second for {} s", plan.rate, plan.seconds);
}

LoadRun::Time LoadRun::due_at(std::size_t number) const {
  return began_ + duration_of(static_cast<double>(number) / plan_.rate);
}

std::optional<LoadRun::Time> LoadRun::due(Time now) const {
  if (plan_.stop && *plan_.stop) return std::nullopt;
  const Time until = began_ + duration_of(plan_.seconds);
  if (plan_.rate > 0) {
    // What was due before the end is sent, however late.
    const Time next = due_at(begun_);
    return next < until ? std::optional(next) : std::nullopt;
  }
  return now < until ? std::optional(now) : std::nullopt;
}

std::optional<LoadRun::Time> LoadRun::next(Time now) {
  const std::optional<Time> intended = due(now);
  if (!intended || *intended > now) return std::nullopt;
  ++begun_;
  ++in_flight_;
  return intended;
}

void LoadRun::ended(Time intended, Time now, const std::string& failure) {
  --in_flight_;
  last_ = std::max(last_, now);
  if (failure.empty()) {
    figures_.latencies.push_back(std::chrono::duration<double>(now - intended).count());
    return;
  }
  if (figures_.failed++ == 0) figures_.first_failure = failure;
}

LoadFigures LoadRun::figures() const {
  LoadFigures out = figures_;
  std::ranges::sort(out.latencies);
  out.seconds = std::chrono::duration<double>(last_ - began_).count();
  return out;
}

}  // namespace troupe::bench
