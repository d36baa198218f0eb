// Images for tests.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/kernels/readers/image_files.hpp"
#include <troupe/messages/tensor.hpp>

namespace troupe::testing {

// f32, with pixel (y, x, c) = (37 x + 91 y + 53 c + 11 x y) mod 256: that of the values computed with TensorFlow.
inline Tensor stepped_image(std::int64_t height, std::int64_t width, std::int64_t channels, float scale = 1) {
  Tensor out(DType::f32, Shape{height, width, channels});
  float* to = out.mutable_data<float>();
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x)
      for (std::int64_t c = 0; c < channels; ++c)
        *to++ = static_cast<float>((37 * x + 91 * y + 53 * c + 11 * x * y) % 256) * scale;
  return out;
}

inline Tensor bytes_of(const Tensor& image) {
  Tensor out(DType::u8, image.shape());
  for (std::int64_t i = 0; i < image.num_elements(); ++i)
    out.mutable_data<std::uint8_t>()[i] = static_cast<std::uint8_t>(std::lround(image.data<float>()[i]));
  return out;
}

inline Tensor random_bytes(std::int64_t height, std::int64_t width, std::int64_t channels, unsigned seed = 1) {
  std::mt19937 random(seed);
  Tensor out(DType::u8, Shape{height, width, channels});
  for (std::uint8_t& x : out.mutable_values<std::uint8_t>()) x = static_cast<std::uint8_t>(random());
  return out;
}

// Of u8 [height, width, 3].
inline std::string jpeg_of(const Tensor& image) {
  const auto x = image.values<std::uint8_t>();
  return jpeg_file({x.begin(), x.end()}, static_cast<unsigned>(image.shape()[0]),
                   static_cast<unsigned>(image.shape()[1]));
}

inline std::vector<double> numbers_of(const Tensor& image) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < image.num_elements(); ++i)
    out.push_back(image.dtype() == DType::u8 ? image.data<std::uint8_t>()[i]
                                             : static_cast<double>(image.data<float>()[i]));
  return out;
}

inline double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double out = a.size() == b.size() ? 0 : 1e9;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) out = std::max(out, std::abs(a[i] - b[i]));
  return out;
}

}  // namespace troupe::testing
