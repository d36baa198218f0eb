// Builder API for random numbers: each step draws new ones; runs with the same seeds draw the same numbers.
#pragma once

#include <troupe/graph/builder/core.hpp>

namespace troupe {

struct RandomOptions {
  DType dtype = DType::f32;
  std::int64_t seed = 0;
  Name name{};
};
Output random_uniform(Graph& graph, const Shape& shape, double minval = 0, double maxval = 1,
                      RandomOptions options = {});
Output random_normal(Graph& graph, const Shape& shape, double mean = 0, double stddev = 1, RandomOptions options = {});
// Normal, truncated at two standard deviations: values beyond are redrawn.
Output truncated_normal(Graph& graph, const Shape& shape, double mean = 0, double stddev = 1,
                        RandomOptions options = {});

}  // namespace troupe
