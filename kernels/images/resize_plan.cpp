#include "troupe/kernels/images/resize_plan.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace troupe::images {
namespace {

constexpr std::size_t kVector = 4;  // floats: a pixel is computed as one vector

// The weights of pixels around one place, of an axis of `before` pixels.
struct Taps {
  std::int64_t first = 0;
  std::vector<double> weights;
};

Taps bilinear_taps(double center, std::int64_t before) {
  const double low = std::floor(center), right = center - low;
  const auto clamped = [&](double at) {
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(at), 0, before - 1);
  };
  if (clamped(low) == clamped(low + 1)) return {clamped(low), {1}};
  return {clamped(low), {1 - right, right}};
}

// A triangle of half width `scale`, as in Pillow and in tf.image.resize(antialias=True).
Taps triangle_taps(double center, double scale, std::int64_t before) {
  const double middle = center + 0.5;
  const auto first = std::max<std::int64_t>(static_cast<std::int64_t>(std::floor(middle - scale + 0.5)), 0);
  const auto end = std::min(static_cast<std::int64_t>(std::floor(middle + scale + 0.5)), before);
  Taps taps{first, {}};
  double sum = 0;
  for (std::int64_t i = first; i < end; ++i) {
    taps.weights.push_back(std::max(0.0, 1 - std::abs(static_cast<double>(i) - center) / scale));
    sum += taps.weights.back();
  }
  for (double& weight : taps.weights) weight /= sum;
  return taps;
}

Taps area_taps(std::int64_t j, double scale, std::int64_t before) {
  const double begin = static_cast<double>(j) * scale, end = begin + scale;
  Taps taps{std::min(static_cast<std::int64_t>(begin), before - 1), {}};
  double sum = 0;
  for (std::int64_t i = taps.first; i < before && (i == taps.first || static_cast<double>(i) < end); ++i) {
    const double covered = std::min(end, static_cast<double>(i + 1)) - std::max(begin, static_cast<double>(i));
    taps.weights.push_back(std::max(0.0, covered));
    sum += taps.weights.back();
  }
  for (double& weight : taps.weights) weight /= sum;
  return taps;
}

Taps taps_of(std::int64_t j, double scale, std::int64_t before, ResizeOptions options) {
  const double center = (static_cast<double>(j) + 0.5) * scale - 0.5;
  switch (options.interpolation) {
    case Interpolation::nearest:
      return {std::min(static_cast<std::int64_t>(center + 0.5), before - 1), {1}};
    case Interpolation::area:
      return area_taps(j, scale, before);
    case Interpolation::bilinear:
      break;
  }
  return options.antialias && scale > 1 ? triangle_taps(center, scale, before) : bilinear_taps(center, before);
}

// to[i] = weight * from[i], or that added to it.
template <bool kAdd, class T>
void add_row(float* __restrict to, const T* __restrict from, float weight, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    to[i] = kAdd ? to[i] + weight * static_cast<float>(from[i]) : weight * static_cast<float>(from[i]);
}

template <class T>
void add_two_rows(float* __restrict to, const T* __restrict a, const T* __restrict b, float of_a, float of_b,
                  std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = of_a * static_cast<float>(a[i]) + of_b * static_cast<float>(b[i]);
}

void write_sums(const float* __restrict from, std::uint8_t* __restrict to, std::int64_t count) {
  // Weights are not negative and add up to 1, but for rounding.
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<std::uint8_t>(static_cast<int>(from[i] + 0.5f));
}
void write_sums(const float* from, float* to, std::int64_t count) { std::copy_n(from, count, to); }

}  // namespace

AxisWeights axis_weights(std::int64_t before, std::int64_t after, ResizeOptions options) {
  const double scale = static_cast<double>(before) / static_cast<double>(after);
  std::vector<Taps> all;
  AxisWeights out;
  for (std::int64_t j = 0; j < after; ++j) {
    all.push_back(taps_of(j, scale, before, options));
    out.taps = std::max(out.taps, std::ssize(all.back().weights));
  }
  for (const Taps& taps : all) {
    const std::int64_t first = std::min(taps.first, before - out.taps);
    const auto ahead = static_cast<std::size_t>(taps.first - first), at = out.weights.size();
    out.first.push_back(first);
    out.weights.resize(at + static_cast<std::size_t>(out.taps));
    for (std::size_t k = 0; k < taps.weights.size(); ++k)
      out.weights[at + ahead + k] = static_cast<float>(taps.weights[k]);
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
      sums_(static_cast<std::size_t>(box.width * channels) + kVector),
      row_(static_cast<std::size_t>(size.width * channels) + kVector) {}

template <class T>
void ResizePlan::sum_rows(std::int64_t j, const T* rows, std::int64_t stride) {
  const std::int64_t count = box_.width * channels_;
  const float* weights = rows_.weights.data() + j * rows_.taps;
  const T* from = rows + box_.left * channels_;
  if (rows_.taps == 2) return add_two_rows(sums_.data(), from, from + stride, weights[0], weights[1], count);
  add_row<false>(sums_.data(), from, weights[0], count);
  for (std::int64_t k = 1; k < rows_.taps; ++k)
    if (weights[k] != 0) add_row<true>(sums_.data(), from + k * stride, weights[k], count);
}

// kTaps 0: any number. Of 3 channels the fourth element of a vector is the next pixel's, which is written after it.
template <int kChannels, int kTaps>
void ResizePlan::sum_columns_of() {
  constexpr int kWidth = kChannels == 3 ? 4 : kChannels;
  const std::int64_t taps = kTaps == 0 ? columns_.taps : kTaps;
  const float* __restrict weights = columns_.weights.data();
  const std::int64_t* __restrict first = columns_.first.data();
  float* __restrict to = row_.data();
  for (std::int64_t j = 0; j < size_.width; ++j, weights += taps, to += kChannels) {
    const float* __restrict from = sums_.data() + first[j] * kChannels;
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
  const auto channels = static_cast<std::size_t>(channels_), taps = static_cast<std::size_t>(columns_.taps);
  for (std::size_t j = 0; j < columns_.first.size(); ++j)
    for (std::size_t c = 0; c < channels; ++c) {
      float sum = 0;
      for (std::size_t k = 0; k < taps; ++k)
        sum += columns_.weights[j * taps + k] * sums_[(static_cast<std::size_t>(columns_.first[j]) + k) * channels + c];
      row_[j * channels + c] = sum;
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
  write_sums(row_.data(), to, size_.width * channels_);
}

template void ResizePlan::write_row(std::int64_t, const std::uint8_t*, std::int64_t, std::uint8_t*);
template void ResizePlan::write_row(std::int64_t, const float*, std::int64_t, float*);

}  // namespace troupe::images
