#include "troupe/kernels/cuda/schedule_of.hpp"

#include <algorithm>

#include <troupe/graph/optimizers/schedules.hpp>

namespace troupe {

// The numbers of a course stand one after the other, as Schedule::attributes() writes them; Schedule::of() has checked
// them.
std::optional<CudaSchedule> cuda_schedule(const Attributes& attributes) {
  static_cast<void>(Schedule::of(attributes));
  const std::string& name = attributes.string("schedule");
  const auto& reals = attributes.get<std::vector<double>>("reals");
  const auto& integers = attributes.integers("integers");
  CudaSchedule s;
  s.warm_up = attributes.integer("warm_up");
  if (name == "piecewise") {
    if (integers.size() > CudaSchedule::kMostChanges) return std::nullopt;
    s.course = CudaCourse::piecewise;
    s.changes = static_cast<int>(integers.size());
    std::ranges::copy(reals, s.rates);
    std::ranges::copy(integers, s.from);
    return s;
  }
  s.rate = reals.at(0);
  if (name == "step" || name == "exponential") {
    s.course = name == "step" ? CudaCourse::step : CudaCourse::exponential;
    s.factor = reals.at(1);
    s.every = integers.at(0);
  } else if (name == "cosine" || name == "polynomial") {
    s.course = name == "cosine" ? CudaCourse::cosine : CudaCourse::polynomial;
    s.end = reals.at(1);
    if (name == "polynomial") s.power = reals.at(2);
    s.steps = integers.at(0);
  } else if (name != "constant") {
    invalid_argument("the learning rate schedule '{}' is none that a GPU knows", name);
  }
  return s;
}

}  // namespace troupe
