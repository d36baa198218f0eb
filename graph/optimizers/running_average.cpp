#include "troupe/graph/optimizers/running_average.hpp"

#include <troupe/graph/builder/builder.hpp>

namespace troupe {

std::vector<GradientAndVariable> moves_of(std::span<const RunningAverage> averages) {
  std::vector<GradientAndVariable> out;
  for (const RunningAverage& average : averages) {
    if (!(average.part > 0 && average.part <= 1))
      invalid_argument("running average '{}': the part of a new value must be in (0, 1], not {}", average.variable.name,
                       average.part);
    const auto device = average.value.graph->on_device(average.value.source().device);
    out.push_back({.gradient = {.dense = sub(average.variable.read(), average.value)},
                   .variable = average.variable,
                   .moved_by = average.part});
  }
  return out;
}

}  // namespace troupe
