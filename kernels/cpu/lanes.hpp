// Reductions of a row in a fixed order that suits vector registers.
#pragma once

#include <cstdint>

namespace troupe {

// Combines term(0), ..., term(n - 1) in 16 interleaved lanes: a fixed order that still suits vector registers.
template <class T, class Term, class Combine>
T combine_lanes(std::int64_t n, T start, Term term, Combine combine) {
  constexpr std::int64_t kLanes = 16;
  T lanes[kLanes];
  for (T& lane : lanes) lane = start;
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::int64_t j = 0; j < kLanes; ++j) lanes[j] = combine(lanes[j], term(i + j));
  for (std::int64_t j = 0; i + j < n; ++j) lanes[j] = combine(lanes[j], term(i + j));
  for (std::int64_t width = kLanes / 2; width > 0; width /= 2)
    for (std::int64_t j = 0; j < width; ++j) lanes[j] = combine(lanes[j], lanes[j + width]);
  return lanes[0];
}

template <class T, class Term>
T sum_of(std::int64_t n, Term term) {
  return combine_lanes(n, T{0}, term, [](T a, T b) { return a + b; });
}

}  // namespace troupe
