#include "troupe/kernels/images/resize_plan.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <troupe/kernels/images/byte_lanes.hpp>

namespace troupe::images {
namespace {

constexpr std::int64_t kVector = 4;  // floats: a pixel is computed as one vector

// The weights of pixels around one place.
struct Taps {
  std::int64_t first = 0;
  std::vector<double> weights{};
  void scale_to_one() {
    double sum = 0;
    for (const double weight : weights) sum += weight;
    for (double& weight : weights) weight /= sum;
  }
};

// Of an axis that shrinks `scale` times, from `before` pixels.
class Axis {
 public:
  Axis(double scale, std::int64_t before, ResizeOptions options)
      : scale_(scale), before_(before), options_(options), smooth_(options.antialias && scale > 1) {}

  std::int64_t most_taps() const {
    double most = 2;
    if (options_.interpolation == Interpolation::nearest) most = 1;
    if (options_.interpolation == Interpolation::area)
      most = scale_ == std::floor(scale_) ? scale_ : std::ceil(scale_) + 1;
    if (options_.interpolation == Interpolation::bilinear && smooth_) most = std::ceil(2 * scale_);
    return std::min(static_cast<std::int64_t>(most), before_);
  }

  // Of pixel j of the result.
  void weigh(std::int64_t j, Taps& taps) const {
    taps.weights.clear();
    const double center = (static_cast<double>(j) + 0.5) * scale_ - 0.5;
    switch (options_.interpolation) {
      case Interpolation::nearest:
        taps.first = std::min(static_cast<std::int64_t>(center + 0.5), before_ - 1);
        taps.weights.push_back(1);
        return;
      case Interpolation::area:
        return weigh_area(j, taps);
      case Interpolation::bilinear:
        return smooth_ ? weigh_triangle(center, taps) : weigh_two(center, taps);
    }
  }

 private:
  void weigh_two(double center, Taps& taps) const {
    const double low = std::floor(center), right = center - low;
    taps.first = std::max<std::int64_t>(static_cast<std::int64_t>(low), 0);
    if (low < 0 || taps.first + 1 == before_)
      taps.weights = {1};
    else
      taps.weights = {1 - right, right};
  }

  // A triangle of half width `scale`, as in Pillow and in tf.image.resize(antialias=True).
  void weigh_triangle(double center, Taps& taps) const {
    const auto bound = [](double at) { return static_cast<std::int64_t>(std::floor(at + 1)); };
    taps.first = std::max<std::int64_t>(bound(center - scale_), 0);
    const std::int64_t end = std::min(bound(center + scale_), before_);
    for (std::int64_t i = taps.first; i < end; ++i)
      taps.weights.push_back(std::max(0.0, 1 - std::abs(static_cast<double>(i) - center) / scale_));
    taps.scale_to_one();
  }

  void weigh_area(std::int64_t j, Taps& taps) const {
    const double begin = static_cast<double>(j) * scale_, end = begin + scale_;
    taps.first = std::min(static_cast<std::int64_t>(begin), before_ - 1);
    for (std::int64_t i = taps.first; i < before_ && (i == taps.first || static_cast<double>(i) < end); ++i)
      taps.weights.push_back(
          std::max(0.0, std::min(end, static_cast<double>(i + 1)) - std::max(begin, static_cast<double>(i))));
    taps.scale_to_one();
  }

  const double scale_;
  const std::int64_t before_;
  const ResizeOptions options_;
  const bool smooth_;
};

// to[i] = weight * from[i], or that added to it.
template <bool kAdd, class T>
void add_row(float* to, const T* from, float weight, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Lanes product = weight * load_lanes(from + i);
    store_lanes(kAdd ? load_lanes(to + i) + product : product, to + i);
  }
  for (; i < count; ++i)
    to[i] = kAdd ? to[i] + weight * static_cast<float>(from[i]) : weight * static_cast<float>(from[i]);
}

template <class T>
void add_two_rows(float* to, const T* a, const T* b, float of_a, float of_b, std::int64_t count) {
  for_lanes(
      count, [&](std::int64_t i) { store_lanes(of_a * load_lanes(a + i) + of_b * load_lanes(b + i), to + i); },
      [&](std::int64_t i) { to[i] = of_a * static_cast<float>(a[i]) + of_b * static_cast<float>(b[i]); });
}

void write_sums(const float* from, std::uint8_t* to, std::int64_t count) {
  // Weights are not negative and add up to 1, but for rounding.
  for_lanes(
      count, [&](std::int64_t i) { store_lanes(load_lanes(from + i) + 0.5f, to + i); },
      [&](std::int64_t i) { to[i] = static_cast<std::uint8_t>(static_cast<int>(from[i] + 0.5f)); });
}
void write_sums(const float* from, float* to, std::int64_t count) { std::copy_n(from, count, to); }

}  // namespace

AxisWeights axis_weights(std::int64_t before, std::int64_t after, ResizeOptions options) {
  const Axis axis(static_cast<double>(before) / static_cast<double>(after), before, options);
  const auto most = static_cast<std::size_t>(axis.most_taps());
  AxisWeights out{
      .taps = axis.most_taps(), .first = {}, .weights = std::vector<float>(static_cast<std::size_t>(after) * most)};
  out.first.reserve(static_cast<std::size_t>(after));
  Taps taps;
  for (std::int64_t j = 0; j < after; ++j) {
    axis.weigh(j, taps);
    // Rounding may add one that hardly counts.
    const std::size_t count = std::min(taps.weights.size(), most);
    const std::int64_t first = std::min(taps.first, before - out.taps);
    float* to = out.weights.data() + static_cast<std::size_t>(j) * most + static_cast<std::size_t>(taps.first - first);
    for (std::size_t k = 0; k < count; ++k) to[k] = static_cast<float>(taps.weights[k]);
    out.first.push_back(first);
  }
  return out;
}

ResizePlan::ResizePlan(const Box& box, Size size, std::int64_t channels, ResizeOptions options)
    : box_(box),
      size_(size),
      channels_(channels),
      nearest_(options.interpolation == Interpolation::nearest),
      rows_(axis_weights(box.height, size.height, options)),
      columns_(axis_weights(box.width, size.width, options)),
      sums_(DType::f32, Shape{box.width * channels + kVector}),
      row_(DType::f32, Shape{size.width * channels + kVector}) {
  // Computed with, for a whole vector, but not used.
  std::fill_n(sums_.mutable_data<float>() + box.width * channels, kVector, 0.0f);
  if (columns_.taps == 2 && channels >= 3)
    for (std::size_t j = 0; j + 2 <= columns_.first.size(); j += 2)
      for (const std::size_t i : {2 * j, 2 * j + 2, 2 * j + 1, 2 * j + 3})
        pair_weights_.insert(pair_weights_.end(), 4, columns_.weights[i]);
}

template <class T>
void ResizePlan::sum_rows(std::int64_t j, const T* rows, std::int64_t stride) {
  const std::int64_t count = box_.width * channels_;
  const float* weights = rows_.weights.data() + j * rows_.taps;
  const T* from = rows + box_.left * channels_;
  float* const sums = sums_.mutable_data<float>();
  if (rows_.taps == 2) return add_two_rows(sums, from, from + stride, weights[0], weights[1], count);
  add_row<false>(sums, from, weights[0], count);
  for (std::int64_t k = 1; k < rows_.taps; ++k)
    if (weights[k] != 0) add_row<true>(sums, from + k * stride, weights[k], count);
}

// kTaps 0: any number. Of 3 channels the fourth element of a vector is the next pixel's, which is written after it.
template <int kChannels, int kTaps>
void ResizePlan::sum_columns_of() {
  constexpr int kWidth = kChannels == 3 ? 4 : kChannels;
  const std::int64_t taps = kTaps == 0 ? columns_.taps : kTaps;
  const float* __restrict weights = columns_.weights.data();
  const std::int64_t* __restrict first = columns_.first.data();
  const float* const sums = sums_.data<float>();
  float* __restrict to = row_.mutable_data<float>();
  std::int64_t j = 0;
#ifdef __AVX__
  // Two pixels are one vector.
  if constexpr (kWidth == 4 && kTaps == 2) {
    const auto two = [](const float* a, const float* b) {
      return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(a)), _mm_loadu_ps(b), 1);
    };
    const float* by = pair_weights_.data();
    for (; j + 2 <= size_.width; j += 2, by += 16, to += 2 * kChannels) {
      const float* a = sums + first[j] * kChannels;
      const float* b = sums + first[j + 1] * kChannels;
      const __m256 sum = _mm256_add_ps(_mm256_mul_ps(_mm256_loadu_ps(by), two(a, b)),
                                       _mm256_mul_ps(_mm256_loadu_ps(by + 8), two(a + kChannels, b + kChannels)));
      _mm_storeu_ps(to, _mm256_castps256_ps128(sum));
      _mm_storeu_ps(to + kChannels, _mm256_extractf128_ps(sum, 1));
    }
    weights += j * taps;
  }
#endif
  for (; j < size_.width; ++j, weights += taps, to += kChannels) {
    const float* __restrict from = sums + first[j] * kChannels;
    float sum[kWidth];
    for (int c = 0; c < kWidth; ++c) sum[c] = weights[0] * from[c];
    for (std::int64_t k = 1; k < taps; ++k)
      for (int c = 0; c < kWidth; ++c) sum[c] += weights[k] * from[k * kChannels + c];
    for (int c = 0; c < kWidth; ++c) to[c] = sum[c];
  }
}

void ResizePlan::sum_columns() {
  const bool two = columns_.taps == 2;
  if (channels_ == 3) return two ? sum_columns_of<3, 2>() : sum_columns_of<3, 0>();
  if (channels_ == 1) return two ? sum_columns_of<1, 2>() : sum_columns_of<1, 0>();
  if (channels_ == 4) return two ? sum_columns_of<4, 2>() : sum_columns_of<4, 0>();
  const float* const sums = sums_.data<float>();
  float* const row = row_.mutable_data<float>();
  const auto channels = static_cast<std::size_t>(channels_), taps = static_cast<std::size_t>(columns_.taps);
  for (std::size_t j = 0; j < columns_.first.size(); ++j)
    for (std::size_t c = 0; c < channels; ++c) {
      float sum = 0;
      for (std::size_t k = 0; k < taps; ++k)
        sum += columns_.weights[j * taps + k] * sums[(static_cast<std::size_t>(columns_.first[j]) + k) * channels + c];
      row[j * channels + c] = sum;
    }
}

template <class T>
void ResizePlan::write_row(std::int64_t j, const T* rows, std::int64_t stride, T* to) {
  if (nearest_) {
    const T* from = rows + box_.left * channels_;
    for (const std::int64_t x : columns_.first) to = std::copy_n(from + x * channels_, channels_, to);
    return;
  }
  sum_rows(j, rows, stride);
  sum_columns();
  write_sums(row_.data<float>(), to, size_.width * channels_);
}

template void ResizePlan::write_row(std::int64_t, const std::uint8_t*, std::int64_t, std::uint8_t*);
template void ResizePlan::write_row(std::int64_t, const float*, std::int64_t, float*);

}  // namespace troupe::images
