// How rows of an image become those of another size: weights, computed once for an image or several of one size.
#pragma once

#include <cstdint>
#include <vector>

#include <troupe/kernels/images/resize.hpp>

namespace troupe::images {

// Pixel j of an axis is the sum of weights[j * taps + k] * x[first[j] + k] for k in [0, taps).
struct AxisWeights {
  std::int64_t taps = 1;
  std::vector<std::int64_t> first;  // first[j] + taps are at most the axis' size before
  std::vector<float> weights;
};

// Both sizes are at least 1.
AxisWeights axis_weights(std::int64_t before, std::int64_t after, ResizeOptions options);

class ResizePlan {
 public:
  // From a box of an image; `channels` of each pixel.
  ResizePlan(const Box& box, Size size, std::int64_t channels, ResizeOptions options);

  // Row j of the result is made of the image's rows [first_row(j), first_row(j) + taps()).
  std::int64_t first_row(std::int64_t j) const { return box_.top + rows_.first[static_cast<std::size_t>(j)]; }
  std::int64_t taps() const { return rows_.taps; }
  // Writes row j. `rows`: row first_row(j) of the image; the next ones follow at a distance of `stride` elements.
  // T: std::uint8_t or float. Not thread-safe.
  template <class T>
  void write_row(std::int64_t j, const T* rows, std::int64_t stride, T* to);

 private:
  template <class T>
  void sum_rows(std::int64_t j, const T* rows, std::int64_t stride);
  void sum_columns();
  template <int kChannels, int kTaps>
  void sum_columns_of();

  Box box_;
  Size size_;
  std::int64_t channels_;
  bool nearest_;
  AxisWeights rows_, columns_;
  // Of two taps, for two pixels as one vector of 8: the first taps' weights, 4 times each, then those of the second.
  std::vector<float> pair_weights_;
  Tensor sums_, row_;  // f32, of rows, and of both: a few elements longer, for whole vectors
};

}  // namespace troupe::images
