#include "troupe/kernels/images/geometry.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include <troupe/messages/error.hpp>

namespace troupe::images {
namespace {

// Calls f<T>() with the type of an image's elements.
template <class F>
Tensor of_type(const Tensor& image, F&& f) {
  return image.dtype() == DType::u8 ? f(std::uint8_t{}) : f(float{});
}

template <class T>
T pixel_value(float value, std::string_view function) {
  if constexpr (std::is_same_v<T, std::uint8_t>) {
    if (!(value >= 0 && value <= 255 && value == std::floor(value)))
      invalid_argument("{}: the value {} is none of u8", function, value);
  }
  return static_cast<T>(value);
}

// Pixels of `width` bytes from the last to the first.
void reverse_pixels(const std::byte* from, std::byte* to, std::int64_t pixels, std::size_t width) {
  const std::byte* x = from + static_cast<std::size_t>(pixels) * width;
  const auto copy = [&](std::size_t bytes) {
    std::memcpy(to, x -= width, bytes);
    to += width;
  };
  if (width != 3) {
    for (std::int64_t i = 0; i < pixels; ++i) copy(width);
    return;
  }
  // Five at once; the byte before them is written behind them, where the next pixel comes.
  using Bytes = std::uint8_t __attribute__((vector_size(16)));
  for (; pixels > 5; pixels -= 5, to += 15) {
    Bytes five;
    std::memcpy(&five, x - sizeof five, sizeof five);
    five = __builtin_shufflevector(five, five, 13, 14, 15, 10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3, 0);
    std::memcpy(to, &five, sizeof five);
    x -= 15;
  }
  for (; pixels > 0; --pixels) copy(3);
}

// A pixel of an image, or `fill`.
template <class T>
float pixel_or(const T* image, Size size, std::int64_t channels, std::int64_t y, std::int64_t x, std::int64_t c,
               float fill) {
  if (y < 0 || x < 0 || y >= size.height || x >= size.width) return fill;
  return static_cast<float>(image[(y * size.width + x) * channels + c]);
}

template <class T>
void rotate_to(const Tensor& image, Size size, double degrees, float fill, Tensor& out) {
  const std::int64_t channels = image.shape()[2];
  const double angle = degrees * std::numbers::pi / 180, cos = std::cos(angle), sin = std::sin(angle);
  const double middle_y = static_cast<double>(size.height - 1) / 2, middle_x = static_cast<double>(size.width - 1) / 2;
  const T* from = image.data<T>();
  T* to = out.mutable_data<T>();
  for (std::int64_t i = 0; i < size.height; ++i)
    for (std::int64_t j = 0; j < size.width; ++j, to += channels) {
      const double dy = static_cast<double>(i) - middle_y, dx = static_cast<double>(j) - middle_x;
      const double at_y = middle_y + cos * dy + sin * dx, at_x = middle_x - sin * dy + cos * dx;
      const double low_y = std::floor(at_y), low_x = std::floor(at_x);
      const auto y = static_cast<std::int64_t>(low_y), x = static_cast<std::int64_t>(low_x);
      const auto down = static_cast<float>(at_y - low_y), right = static_cast<float>(at_x - low_x);
      for (std::int64_t c = 0; c < channels; ++c) {
        const auto at = [&](std::int64_t row, std::int64_t column) {
          return pixel_or(from, size, channels, row, column, c, fill);
        };
        const float top = at(y, x) + right * (at(y, x + 1) - at(y, x));
        const float bottom = at(y + 1, x) + right * (at(y + 1, x + 1) - at(y + 1, x));
        const float value = top + down * (bottom - top);
        if constexpr (std::is_same_v<T, std::uint8_t>)
          to[c] = static_cast<T>(static_cast<int>(std::clamp(value, 0.0f, 255.0f) + 0.5f));
        else
          to[c] = value;
      }
    }
}

}  // namespace

Tensor crop(const Tensor& image, const Box& box) {
  const Size size = size_of_image(image, "crop");
  check_box(box, size, "crop");
  if (box == Box{0, 0, size.height, size.width}) return image;
  const std::int64_t channels = image.shape()[2];
  Tensor out(image.dtype(), Shape{box.height, box.width, channels});
  const std::size_t pixel = static_cast<std::size_t>(channels) * troupe::size_of(image.dtype());
  const std::size_t row = static_cast<std::size_t>(box.width) * pixel;
  for (std::int64_t i = 0; i < box.height; ++i)
    std::memcpy(out.mutable_raw() + static_cast<std::size_t>(i) * row,
                image.raw() + static_cast<std::size_t>((box.top + i) * size.width + box.left) * pixel, row);
  return out;
}

Box center_box(Size image, Size size) {
  return {(image.height - size.height) / 2, (image.width - size.width) / 2, size.height, size.width};
}

Tensor center_crop(const Tensor& image, Size size) {
  return crop(image, center_box(size_of_image(image, "center_crop"), size));
}

Tensor pad(const Tensor& image, const Padding& padding, float value) {
  const Size size = size_of_image(image, "pad");
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  for (const std::int64_t side : {padding.top, padding.bottom, padding.left, padding.right})
    if (side < 0 || side > kMost) invalid_argument("pad: a border of {} pixels", side);
  const std::int64_t channels = image.shape()[2];
  const Shape shape{padding.top + size.height + padding.bottom, padding.left + size.width + padding.right, channels};
  return of_type(image, [&]<class T>(T) {
    Tensor out(image.dtype(), shape);
    std::ranges::fill(out.mutable_values<T>(), pixel_value<T>(value, "pad"));
    for (std::int64_t i = 0; i < size.height; ++i)
      std::copy_n(image.data<T>() + i * size.width * channels, size.width * channels,
                  out.mutable_data<T>() + ((padding.top + i) * shape[1] + padding.left) * channels);
    return out;
  });
}

Tensor flip_left_right(const Tensor& image) {
  const Size size = size_of_image(image, "flip_left_right");
  Tensor out(image.dtype(), image.shape());
  const std::size_t pixel = static_cast<std::size_t>(image.shape()[2]) * troupe::size_of(image.dtype());
  const std::size_t row = static_cast<std::size_t>(size.width) * pixel;
  for (std::size_t i = 0; i < static_cast<std::size_t>(size.height); ++i)
    reverse_pixels(image.raw() + i * row, out.mutable_raw() + i * row, size.width, pixel);
  return out;
}

Tensor flip_up_down(const Tensor& image) {
  const Size size = size_of_image(image, "flip_up_down");
  Tensor out(image.dtype(), image.shape());
  const std::size_t row = image.num_bytes() / static_cast<std::size_t>(size.height);
  for (std::size_t i = 0, end = static_cast<std::size_t>(size.height); i < end; ++i)
    std::memcpy(out.mutable_raw() + i * row, image.raw() + (end - 1 - i) * row, row);
  return out;
}

Tensor rotate(const Tensor& image, double degrees, float fill) {
  const Size size = size_of_image(image, "rotate");
  if (!std::isfinite(degrees)) invalid_argument("rotate: by {} degrees", degrees);
  return of_type(image, [&]<class T>(T) {
    pixel_value<T>(fill, "rotate");
    Tensor out(image.dtype(), image.shape());
    rotate_to<T>(image, size, degrees, fill, out);
    return out;
  });
}

}  // namespace troupe::images
