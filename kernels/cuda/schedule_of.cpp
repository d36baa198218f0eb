#include "troupe/kernels/cuda/schedule_of.hpp"

#include <algorithm>
#include <variant>

namespace troupe {
namespace {

CudaSchedule typed(const schedules::Constant& c) { return {.rate = c.rate}; }
CudaSchedule typed(const schedules::Step& c) {
  return {.course = CudaCourse::step, .rate = c.rate, .factor = c.factor, .every = c.every};
}
CudaSchedule typed(const schedules::Piecewise& c) {
  CudaSchedule s{.course = CudaCourse::piecewise, .changes = static_cast<int>(c.from.size())};
  std::ranges::copy(c.rates, s.rates);
  std::ranges::copy(c.from, s.from);
  return s;
}
CudaSchedule typed(const schedules::Exponential& c) {
  return {.course = CudaCourse::exponential, .rate = c.rate, .factor = c.factor, .every = c.every};
}
CudaSchedule typed(const schedules::Cosine& c) {
  return {.course = CudaCourse::cosine, .rate = c.rate, .end = c.end, .steps = c.steps};
}
CudaSchedule typed(const schedules::Polynomial& c) {
  return {.course = CudaCourse::polynomial, .rate = c.rate, .end = c.end, .power = c.power, .steps = c.steps};
}
CudaSchedule typed(const schedules::Mean& c) {
  return {.course = CudaCourse::mean, .every = c.every, .start = c.start};
}

}  // namespace

std::optional<CudaSchedule> cuda_schedule(const Schedule& schedule) {
  const auto* changes = std::get_if<schedules::Piecewise>(&schedule.course());
  if (changes && changes->from.size() > CudaSchedule::kMostChanges) return std::nullopt;
  CudaSchedule made = std::visit([](const auto& course) { return typed(course); }, schedule.course());
  made.warm_up = schedule.warm_up();
  return made;
}

}  // namespace troupe
