// Learning rate schedules evaluated on the GPU: reading the update count would wait for the GPU. For host and device
// code.
#pragma once

#include <cmath>
#include <cstdint>

#include <troupe/kernels/common/host_device.hpp>

namespace troupe {

enum class CudaCourse { constant, step, piecewise, exponential, cosine, polynomial, mean };

// A Schedule (graph/optimizers/schedules.hpp) as a kernel's argument.
struct CudaSchedule {
  static constexpr int kMostChanges = 64;

  CudaCourse course = CudaCourse::constant;
  std::int64_t warm_up = 0;
  double rate = 0, end = 0, factor = 0, power = 1;
  std::int64_t every = 1, steps = 1, start = 0;
  int changes = 0;  // piecewise
  double rates[kMostChanges + 1] = {};
  std::int64_t from[kMostChanges] = {};
};

TROUPE_HOST_DEVICE inline double course_rate(const CudaSchedule& s, std::int64_t t) {
  const double done = static_cast<double>(t < s.steps ? t : s.steps) / static_cast<double>(s.steps);
  switch (s.course) {
    case CudaCourse::constant:
      return s.rate;
    case CudaCourse::step:
      return s.rate * pow(s.factor, static_cast<double>(t / s.every));
    case CudaCourse::piecewise: {
      int i = 0;
      while (i < s.changes && s.from[i] <= t) ++i;
      return s.rates[i];
    }
    case CudaCourse::exponential:
      return s.rate * pow(s.factor, static_cast<double>(t) / static_cast<double>(s.every));
    case CudaCourse::cosine:
      return t >= s.steps ? s.end : s.end + (s.rate - s.end) * (1 + cos(3.141592653589793 * done)) / 2;
    case CudaCourse::polynomial:
      return s.end + (s.rate - s.end) * pow(1 - done, s.power);
    case CudaCourse::mean:
      if (t < s.start || (t - s.start) % s.every != 0) return 0;
      return 1 / static_cast<double>((t - s.start) / s.every + 1);
  }
  return s.rate;
}

// Learning rate of the next update after `t` updates; NaN if t is negative.
TROUPE_HOST_DEVICE inline double schedule_rate(const CudaSchedule& s, std::int64_t t) {
  if (t < 0) return NAN;
  if (t < s.warm_up) return course_rate(s, 0) * static_cast<double>(t + 1) / static_cast<double>(s.warm_up);
  return course_rate(s, t - s.warm_up);
}

}  // namespace troupe
