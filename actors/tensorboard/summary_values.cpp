#include "troupe/actors/tensorboard/summary_values.hpp"

#include <algorithm>
#include <cmath>

#include <troupe/actors/tensorboard/histogram.hpp>
#include <troupe/actors/tensorboard/png.hpp>
#include <troupe/messages/element_types.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

namespace pb = proto::tensorboard;

constexpr std::int32_t kString = 7;  // DataType DT_STRING in types.proto

template <class T>
double number_of(T value) {
  if constexpr (sizeof(T) == 2 && !std::is_integral_v<T>)
    return static_cast<float>(value);  // f16, bf16
  else
    return static_cast<double>(value);
}

double number_in(const Tensor& scalar) {
  if (scalar.num_elements() != 1 || (!is_floating(scalar.dtype()) && !is_integer(scalar.dtype())))
    invalid_argument("a scalar must be a number, not {}{}", name(scalar.dtype()), scalar.shape().to_string());
  return dispatch(RealTypes{}, scalar.dtype(), [&]<class T>() { return number_of(*scalar.data<T>()); });
}

std::uint8_t as_byte(double value) {
  return std::isnan(value) ? 0 : static_cast<std::uint8_t>(std::lround(std::clamp(value, 0.0, 1.0) * 255));
}

// Of elements [begin, begin + count).
std::vector<std::uint8_t> pixels_of(const Tensor& images, std::int64_t begin, std::int64_t count) {
  std::vector<std::uint8_t> out(static_cast<std::size_t>(count));
  dispatch(RealTypes{}, images.dtype(), [&]<class T>() {
    const T* from = images.data<T>() + begin;
    for (std::int64_t i = 0; i < count; ++i)
      if constexpr (std::is_same_v<T, std::uint8_t>)
        out[static_cast<std::size_t>(i)] = from[i];
      else
        out[static_cast<std::size_t>(i)] = as_byte(number_of(from[i]));
  });
  return out;
}

}  // namespace

void add_scalar(pb::Summary& summary, const std::string& tag, double value) {
  pb::Summary::Value& added = *summary.add_value();
  added.set_tag(tag);
  added.set_simple_value(static_cast<float>(value));
}

void add_histogram(pb::Summary& summary, const std::string& tag, const Tensor& values) {
  pb::Histogram histogram = histogram_of(values);
  pb::Summary::Value& added = *summary.add_value();
  added.set_tag(tag);
  *added.mutable_histo() = std::move(histogram);
}

void add_images(pb::Summary& summary, const std::string& tag, const Tensor& images, int max_outputs) {
  const Shape& shape = images.shape();
  if (shape.rank() != 4 || (images.dtype() != DType::u8 && !is_floating(images.dtype())))
    invalid_argument("images must be u8 or floats [n, height, width, channels], not {}{}", name(images.dtype()),
                     shape.to_string());
  const std::int64_t count = std::min<std::int64_t>(shape[0], max_outputs), size = shape[1] * shape[2] * shape[3];
  for (std::int64_t i = 0; i < count; ++i) {
    pb::Summary::Image image;
    image.set_height(static_cast<std::int32_t>(shape[1]));
    image.set_width(static_cast<std::int32_t>(shape[2]));
    image.set_colorspace(static_cast<std::int32_t>(shape[3]));
    image.set_encoded_image_string(png_of(pixels_of(images, i * size, size), shape[1], shape[2], shape[3]));
    pb::Summary::Value& added = *summary.add_value();
    added.set_tag(max_outputs == 1 ? tag + "/image" : fmt::format("{}/image/{}", tag, i));
    *added.mutable_image() = std::move(image);
  }
}

void add_text(pb::Summary& summary, const std::string& tag, const std::string& text) {
  pb::Summary::Value& added = *summary.add_value();
  added.set_tag(tag);
  added.mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  added.mutable_metadata()->set_data_class(pb::SummaryMetadata::TENSOR);
  added.mutable_tensor()->set_dtype(kString);
  added.mutable_tensor()->mutable_tensor_shape();  // a scalar
  added.mutable_tensor()->add_string_val(text);
}

void add_summary(pb::Summary& summary, const SummaryOutput& of, const Tensor& value) {
  switch (of.kind) {
    case SummaryKind::scalar:
      return add_scalar(summary, of.tag, number_in(value));
    case SummaryKind::histogram:
      return add_histogram(summary, of.tag, value);
    case SummaryKind::image:
      return add_images(summary, of.tag, value, of.max_outputs);
    case SummaryKind::text:
      return add_text(summary, of.tag, value.item<std::string>());
  }
}

}  // namespace troupe
