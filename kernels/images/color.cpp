#include "troupe/kernels/images/color.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include <troupe/kernels/images/byte_lanes.hpp>
#include <troupe/kernels/images/image_box.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::images {
namespace {

constexpr std::int64_t kStreamed = 1 << 14;  // elements of a row from which a batch of them leaves the near caches
constexpr std::int64_t kNormalizedAtOnce = kLanes;  // pixels: whole vectors, whatever the number of channels

using Rgb = std::array<float, 3>;

template <class T>
float unit_value(T x) {
  return std::is_same_v<T, float> ? static_cast<float>(x) : static_cast<float>(x) / 255.0f;
}

template <class T>
T element_of(float unit) {
  if constexpr (std::is_same_v<T, float>) return unit;
  return static_cast<T>(static_cast<int>(std::clamp(unit, 0.0f, 1.0f) * 255.0f + 0.5f));
}

void check_finite(double value, std::string_view function) {
  if (!std::isfinite(value)) invalid_argument("{}: {} is not finite", function, value);
}

void check_rgb(const Tensor& image, std::string_view function) {
  size_of_image(image, function);
  if (image.shape()[2] != 3)
    invalid_argument("{}: an image has {} channels, but must have red, green and blue", function, image.shape()[2]);
}

template <class T, class F>
void map_elements(const Tensor& image, Tensor& out, F&& f) {
  std::ranges::transform(image.values<T>(), out.mutable_data<T>(),
                         [&](T x) { return element_of<T>(f(unit_value(x))); });
}

// f of each element.
template <class F>
Tensor each_element(const Tensor& image, F&& f) {
  Tensor out(image.dtype(), image.shape());
  image.dtype() == DType::u8 ? map_elements<std::uint8_t>(image, out, f) : map_elements<float>(image, out, f);
  return out;
}

template <class T, class F>
void map_pixels(const Tensor& image, Tensor& out, F&& f) {
  const T* x = image.data<T>();
  T* y = out.mutable_data<T>();
  for (std::int64_t i = 0; i < image.num_elements(); i += 3) {
    const Rgb rgb = f(Rgb{unit_value(x[i]), unit_value(x[i + 1]), unit_value(x[i + 2])});
    for (std::int64_t c = 0; c < 3; ++c) y[i + c] = element_of<T>(rgb[static_cast<std::size_t>(c)]);
  }
}

// f of each pixel.
template <class F>
Tensor each_rgb(const Tensor& image, F&& f) {
  Tensor out(image.dtype(), image.shape());
  image.dtype() == DType::u8 ? map_pixels<std::uint8_t>(image, out, f) : map_pixels<float>(image, out, f);
  return out;
}

template <class T>
Tensor contrasted(const Tensor& image, float factor) {
  const auto channels = static_cast<std::size_t>(image.shape()[2]);
  std::vector<double> sums(channels);
  const std::span<const T> x = image.values<T>();
  for (std::size_t i = 0; i < x.size(); ++i) sums[i % channels] += static_cast<double>(unit_value(x[i]));
  std::vector<float> means;
  const double pixels = static_cast<double>(x.size() / channels);
  for (const double sum : sums) means.push_back(static_cast<float>(sum / pixels));
  Tensor out(image.dtype(), image.shape());
  T* y = out.mutable_data<T>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float mean = means[i % channels];
    y[i] = element_of<T>((unit_value(x[i]) - mean) * factor + mean);
  }
  return out;
}

// The saturation is (largest - smallest) / largest: colours move away from the largest, or towards it.
Rgb saturated(const Rgb& rgb, float factor) {
  const float most = std::ranges::max(rgb), span = most - std::ranges::min(rgb);
  if (span <= 0 || most <= 0) return rgb;
  const float by = std::min(factor, most / span);
  return {most - (most - rgb[0]) * by, most - (most - rgb[1]) * by, most - (most - rgb[2]) * by};
}

// The hue is the place on a circle of 6 parts: red 0, yellow 1, green 2, cyan 3, blue 4, magenta 5.
Rgb turned(const Rgb& rgb, float parts) {
  const float most = std::ranges::max(rgb), span = most - std::ranges::min(rgb);
  if (span <= 0) return rgb;
  float hue = 0;
  if (most == rgb[0])
    hue = (rgb[1] - rgb[2]) / span;
  else if (most == rgb[1])
    hue = 2 + (rgb[2] - rgb[0]) / span;
  else
    hue = 4 + (rgb[0] - rgb[1]) / span;
  hue += parts;
  hue -= 6 * std::floor(hue / 6);
  // How far each colour is below the largest one, as parts of the span.
  const float below[] = {std::clamp(2 - std::abs(hue - 3), 0.0f, 1.0f), std::clamp(std::abs(hue - 2) - 1, 0.0f, 1.0f),
                         std::clamp(std::abs(hue - 4) - 1, 0.0f, 1.0f)};
  return {most - span * below[0], most - span * below[1], most - span * below[2]};
}

template <class T>
void write_grey(const Tensor& image, Tensor& out) {
  const T* x = image.data<T>();
  for (T& y : out.mutable_values<T>()) {
    y = element_of<T>(0.299f * unit_value(x[0]) + 0.587f * unit_value(x[1]) + 0.114f * unit_value(x[2]));
    x += 3;
  }
}

// `write` stores lanes.
template <class T, class Write>
void write_normalized(const T* x, float* y, const float* scale, const float* shift, std::int64_t period,
                      std::int64_t count, const Write& write) {
  std::int64_t i = 0;
  for (; i + period <= count; i += period)
    for (std::int64_t k = 0; k < period; k += kLanes)
      write(load_lanes(x + i + k) * load_lanes(scale + k) + load_lanes(shift + k), y + i + k);
  for (std::int64_t k = 0; i + k < count; ++k) y[i + k] = static_cast<float>(x[i + k]) * scale[k] + shift[k];
}

}  // namespace

Tensor adjust_brightness(const Tensor& image, double delta) {
  size_of_image(image, "adjust_brightness");
  check_finite(delta, "adjust_brightness");
  return each_element(image, [by = static_cast<float>(delta)](float x) { return x + by; });
}

Tensor adjust_contrast(const Tensor& image, double factor) {
  size_of_image(image, "adjust_contrast");
  check_finite(factor, "adjust_contrast");
  return image.dtype() == DType::u8 ? contrasted<std::uint8_t>(image, static_cast<float>(factor))
                                    : contrasted<float>(image, static_cast<float>(factor));
}

Tensor adjust_saturation(const Tensor& image, double factor) {
  check_rgb(image, "adjust_saturation");
  check_finite(factor, "adjust_saturation");
  if (factor < 0) invalid_argument("adjust_saturation: the factor {} is negative", factor);
  return each_rgb(image, [by = static_cast<float>(factor)](const Rgb& rgb) { return saturated(rgb, by); });
}

Tensor adjust_hue(const Tensor& image, double delta) {
  check_rgb(image, "adjust_hue");
  check_finite(delta, "adjust_hue");
  return each_rgb(image, [parts = static_cast<float>(6 * delta)](const Rgb& rgb) { return turned(rgb, parts); });
}

Tensor rgb_to_grayscale(const Tensor& image) {
  check_rgb(image, "rgb_to_grayscale");
  Tensor out(image.dtype(), Shape{image.shape()[0], image.shape()[1], 1});
  image.dtype() == DType::u8 ? write_grey<std::uint8_t>(image, out) : write_grey<float>(image, out);
  return out;
}

Normalization::Normalization(DType dtype, std::int64_t channels, const std::vector<float>& mean,
                             const std::vector<float>& std) {
  const auto each = static_cast<std::size_t>(channels);
  for (const auto* values : {&mean, &std})
    if (values->size() != 1 && values->size() != each)
      invalid_argument("normalize: {} values of {} for {} channels", values->size(), values == &mean ? "mean" : "std",
                       channels);
  const double unit = dtype == DType::u8 ? 1.0 / 255 : 1.0;
  for (std::size_t i = 0; i < each * kNormalizedAtOnce; ++i) {
    const auto of_channel = [&](const std::vector<float>& values) {
      return static_cast<double>(values.size() == 1 ? values[0] : values[i % each]);
    };
    if (!(of_channel(std) > 0) || !std::isfinite(of_channel(std)) || !std::isfinite(of_channel(mean)))
      invalid_argument("normalize: mean {} and std {}: std must be above 0, and both finite", of_channel(mean),
                       of_channel(std));
    scale_.push_back(static_cast<float>(unit / of_channel(std)));
    shift_.push_back(static_cast<float>(-of_channel(mean) / of_channel(std)));
  }
}

void Normalization::write(const Tensor& image, float* to, Reader reader) const {
  const std::int64_t period = std::ssize(scale_), count = image.num_elements();
  const auto write_with = [&](const auto& write) {
    if (image.dtype() == DType::u8)
      write_normalized(image.data<std::uint8_t>(), to, scale_.data(), shift_.data(), period, count, write);
    else
      write_normalized(image.data<float>(), to, scale_.data(), shift_.data(), period, count, write);
  };
  if (reader == Reader::next || count < kStreamed)
    return write_with([](const Lanes& lanes, float* at) { store_lanes(lanes, at); });
  write_with([](const Lanes& lanes, float* at) { stream_lanes(lanes, at); });
  finish_streams();
}

Tensor normalize(const Tensor& image, const std::vector<float>& mean, const std::vector<float>& std) {
  size_of_image(image, "normalize");
  Tensor out(DType::f32, image.shape());
  Normalization(image.dtype(), image.shape()[2], mean, std)
      .write(image, out.mutable_data<float>(), Normalization::Reader::next);
  return out;
}

}  // namespace troupe::images
