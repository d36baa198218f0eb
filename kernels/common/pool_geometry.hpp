// Sizes of pooling of one to three dimensions. All functions throw invalid_argument for mismatched tensors.
#pragma once

#include <array>
#include <cstdint>

#include <troupe/graph/ops/windows.hpp>
#include <troupe/messages/shape.hpp>

namespace troupe {

enum class Divisor : std::uint8_t { existing, padded, one };

struct PoolAttributes {
  WindowOptions windows{};
  Divisor divisor = Divisor::existing;
};

// With channels first, each channel is an image of its own, with one channel.
struct PoolGeometry {
  std::int64_t batch = 0;
  std::int64_t channels = 0;
  WindowAxis depth;
  WindowAxis rows;
  WindowAxis columns;
  std::int64_t image_size() const { return depth.input * rows.input * columns.input * channels; }
  std::int64_t windows() const { return depth.output * rows.output * columns.output; }
  std::int64_t result_size() const { return windows() * channels; }
  std::int64_t pixel(std::int64_t z, std::int64_t y, std::int64_t x) const {
    return ((z * rows.input + y) * columns.input + x) * channels;
  }
  std::int64_t pixel(std::int64_t y, std::int64_t x) const { return (y * columns.input + x) * channels; }
  bool dilated() const { return depth.dilation > 1 || rows.dilation > 1 || columns.dilation > 1; }
};

// Elements of a window's taps along one axis that a sum is divided by.
inline std::int64_t taps_counted(const WindowAxis& axis, Divisor divisor, std::int64_t o) {
  if (divisor == Divisor::one) return 1;
  if (divisor == Divisor::existing) return std::max<std::int64_t>(0, axis.end_tap(o) - axis.first_tap(o));
  // The padded image is where the windows begin, and ends `after` after the image.
  const std::int64_t left = axis.input + axis.after - axis.position(o, 0);
  return std::clamp<std::int64_t>((left + axis.dilation - 1) / axis.dilation, 0, axis.kernel);
}

PoolAttributes pool_attributes(const Attributes& attributes);
PoolGeometry pool_geometry(const Shape& x, const PoolAttributes& options);
Shape pool_shape(const Shape& x, const PoolAttributes& options);  // of the result

}  // namespace troupe
