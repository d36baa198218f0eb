// Predictions with passes for inference, against those without.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "tests/actors/session/drawn.hpp"
#include <troupe/actors/session/session.hpp>

namespace troupe::testing {

struct Folded {
  std::string explained;
  float difference = 0;  // of the results with and without, as a part of the largest
};

inline Folded folded(const Graph& graph, const Output& x, const Output& y, InferencePasses passes = {}) {
  Session plain(graph), faster(graph, {.inference = std::move(passes)});
  const Feeds feeds{{x, drawn(x.shape(), 9, -1, 1)}};
  const Tensor expected = plain.run(feeds, y), actual = faster.run(feeds, y);
  Folded out{.explained = faster.explain({x}, {y})};
  float largest = 0;
  for (std::int64_t i = 0; i < expected.num_elements(); ++i) {
    EXPECT_TRUE(std::isfinite(actual.data<float>()[i])) << i;
    largest = std::max(largest, std::abs(expected.data<float>()[i]));
    out.difference = std::max(out.difference, std::abs(expected.data<float>()[i] - actual.data<float>()[i]));
  }
  out.difference /= largest;
  return out;
}

}  // namespace troupe::testing
