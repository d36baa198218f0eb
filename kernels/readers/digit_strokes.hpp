// Pen paths of the ten digits, for kernels/readers/digits.cpp.
#pragma once

#include <span>
#include <vector>

namespace troupe {

// In percent of the digit's box; y points down.
struct StrokePoint {
  float x;
  float y;
};

// Straight lines through the points, or a smooth curve (Catmull-Rom spline) through them.
struct Stroke {
  bool smooth;
  std::vector<StrokePoint> points;
};

using DigitStyle = std::vector<Stroke>;

// The ways to write `digit`, 0 to 9.
std::span<const DigitStyle> digit_styles(int digit);

}  // namespace troupe
