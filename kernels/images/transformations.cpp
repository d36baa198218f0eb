#include "troupe/kernels/images/transformations.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include <troupe/graph/data/component_function.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::images {
namespace {

using data::ComponentFunction;
using data::ElementContext;
using data::ElementRandom;

std::string form_of(const BatchComponent& component) {
  return fmt::format("{}{}", troupe::name(component.dtype), component.shape.to_string());
}

void check_image(const BatchComponent& component) {
  if ((component.dtype != DType::u8 && component.dtype != DType::f32) || component.shape.rank() != 3)
    invalid_argument("component '{}' is {}, but must be an image, u8 or f32 [height,width,channels]", component.name,
                     form_of(component));
}

void check_colors(const BatchComponent& component) {
  check_image(component);
  if (component.shape.dim(2) != 3)
    invalid_argument("component '{}' is {}, but must have 3 channels, red, green and blue", component.name,
                     form_of(component));
}

BatchComponent sized(BatchComponent component, Size size) {
  component.shape.set_dim(0, size.height);
  component.shape.set_dim(1, size.width);
  return component;
}

// FNV-1a of a function's name, with its user's seed.
std::uint64_t seed_of(std::string_view function, std::uint64_t seed) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : function) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return mix64(hash ^ seed);
}

// A function of images that leaves the component's form.
template <class F>
Transformation in_place(const std::string& function, const std::string& component, void (*check)(const BatchComponent&),
                        F apply) {
  return data::on_component(function, component, [check, apply](const BatchComponent& given) -> ComponentFunction {
    check(given);
    return {.result = given, .function = apply};
  });
}

// Likewise, with a number drawn from low to high.
template <class F>
Transformation with_number(const std::string& function, const std::string& component,
                           void (*check)(const BatchComponent&), double low, double high, std::uint64_t seed, F apply) {
  if (!std::isfinite(low) || !std::isfinite(high) || low > high)
    invalid_argument("{}: draws from {} to {}", function, low, high);
  return in_place(function, component, check,
                  [=, key = seed_of(function, seed)](const Tensor& image, const ElementContext& context) {
                    return apply(image, ElementRandom(key, context).uniform(low, high));
                  });
}

template <class F>
Transformation with_chance(const std::string& function, const std::string& component, std::uint64_t seed,
                           double probability, F apply) {
  if (!(probability >= 0 && probability <= 1)) invalid_argument("{}: a probability of {}", function, probability);
  return in_place(function, component, check_image,
                  [=, key = seed_of(function, seed)](const Tensor& image, const ElementContext& context) {
                    return ElementRandom(key, context).chance(probability) ? apply(image) : image;
                  });
}

// A function that makes images of one size of those of others.
template <class F>
Transformation to_size(const std::string& function, const std::string& component, Size size, F apply) {
  check_size(size, function);
  return data::on_component(function, component, [size, apply](const BatchComponent& given) -> ComponentFunction {
    check_image(given);
    return {.result = sized(given, size), .function = apply};
  });
}

template <class F>
Transformation of_bytes(const std::string& function, const std::string& component, const ImageOptions& options,
                        Shape result, F apply) {
  if (options.channels != 0 && options.channels != 1 && options.channels != 3)
    invalid_argument("{}: images are decoded to 1 or 3 channels, or 0 for those stored, not to {}", function,
                     options.channels);
  return data::on_component(function, component, [result, apply](const BatchComponent& given) -> ComponentFunction {
    if (given.dtype != DType::string || given.shape.rank() != 0)
      invalid_argument("component '{}' is {}, but must be the bytes of a file, string[]", given.name, form_of(given));
    return {.result = {given.name, DType::u8, result},
            .function = [apply](const Tensor& bytes, const ElementContext& context) {
              return apply(bytes.item<std::string>(), fmt::format("element {}", context.number));
            }};
  });
}

std::int64_t channels_of(const ImageOptions& options) { return options.channels == 0 ? kUnknown : options.channels; }

// The largest box of an aspect in these bounds.
Box largest_box(Size image, const RandomCropOptions& options) {
  Size size = image;
  const double height = static_cast<double>(image.height), width = static_cast<double>(image.width);
  if (width / height < options.least_aspect)
    size.height = std::llround(width / options.least_aspect);
  else if (width / height > options.most_aspect)
    size.width = std::llround(height * options.most_aspect);
  size.height = std::clamp<std::int64_t>(size.height, 1, image.height);
  size.width = std::clamp<std::int64_t>(size.width, 1, image.width);
  return center_box(image, size);
}

void check_options(const RandomCropOptions& o) {
  if (!(o.least_area > 0 && o.least_area <= o.most_area && o.most_area <= 1))
    invalid_argument("random_resized_crop: an area from {} to {} of the image", o.least_area, o.most_area);
  if (!(o.least_aspect > 0 && o.least_aspect <= o.most_aspect && std::isfinite(o.most_aspect)))
    invalid_argument("random_resized_crop: an aspect from {} to {}", o.least_aspect, o.most_aspect);
}

}  // namespace

Transformation decode(const std::string& component, const ImageOptions& options) {
  return of_bytes(
      "decode", component, options, Shape{kUnknown, kUnknown, channels_of(options)},
      [options](const std::string& bytes, const std::string& what) { return decode_image(bytes, what, options); });
}

Transformation decode_and_resize(const std::string& component, Size size, ResizeOptions options,
                                 const ImageOptions& decoding) {
  check_size(size, "decode_and_resize");
  return of_bytes("decode_and_resize", component, decoding, Shape{size.height, size.width, channels_of(decoding)},
                  [=](const std::string& bytes, const std::string& what) {
                    return images::decode_and_resize(bytes, what, size, options, decoding);
                  });
}

Transformation resize(const std::string& component, Size size, ResizeOptions options) {
  return to_size("resize", component, size,
                 [=](const Tensor& image, const ElementContext&) { return images::resize(image, size, options); });
}

Transformation center_crop(const std::string& component, Size size) {
  return to_size("center_crop", component, size,
                 [=](const Tensor& image, const ElementContext&) { return images::center_crop(image, size); });
}

Transformation pad(const std::string& component, const Padding& padding, float value) {
  return data::on_component("pad", component, [=](const BatchComponent& given) -> ComponentFunction {
    check_image(given);
    const auto grown = [&](int d, std::int64_t by) {
      return given.shape.dim(d) == kUnknown ? kUnknown : given.shape.dim(d) + by;
    };
    return {.result = sized(given, {grown(0, padding.top + padding.bottom), grown(1, padding.left + padding.right)}),
            .function = [=](const Tensor& image, const ElementContext&) { return images::pad(image, padding, value); }};
  });
}

Transformation rgb_to_grayscale(const std::string& component) {
  return data::on_component("rgb_to_grayscale", component, [](const BatchComponent& given) -> ComponentFunction {
    check_colors(given);
    BatchComponent grey = given;
    grey.shape.set_dim(2, 1);
    return {.result = grey,
            .function = [](const Tensor& image, const ElementContext&) { return images::rgb_to_grayscale(image); }};
  });
}

Transformation normalize(const std::string& component, const std::vector<float>& mean, const std::vector<float>& std) {
  return data::on_component("normalize", component, [=](const BatchComponent& given) -> ComponentFunction {
    check_image(given);
    if (given.shape.dim(2) == kUnknown)
      invalid_argument("component '{}' is {}, but the number of channels must be known", given.name, form_of(given));
    const Normalization normalization(given.dtype, given.shape.dim(2), mean, std);
    return {.result = {given.name, DType::f32, given.shape},
            .function =
                [=](const Tensor& image, const ElementContext&) {
                  Tensor out(DType::f32, image.shape());
                  normalization.write(image, out.mutable_data<float>(), Normalization::Reader::next);
                  return out;
                },
            .to_row =
                [=](const Tensor& image, const ElementContext&, std::int64_t row, Tensor& out) {
                  normalization.write(image, out.mutable_data<float>() + row * image.num_elements(),
                                      Normalization::Reader::batch);
                }};
  });
}

Transformation random_crop(const std::string& component, Size size, std::uint64_t seed) {
  return to_size("random_crop", component, size,
                 [=, key = seed_of("random_crop", seed)](const Tensor& image, const ElementContext& context) {
                   const Size given = size_of_image(image, "random_crop");
                   check_box({0, 0, size.height, size.width}, given, "random_crop");
                   ElementRandom random(key, context);
                   const std::int64_t top = random.below(given.height - size.height + 1);
                   const std::int64_t left = random.below(given.width - size.width + 1);
                   return crop(image, {top, left, size.height, size.width});
                 });
}

Box random_box(Size image, const RandomCropOptions& options, ElementRandom& random) {
  constexpr int kAttempts = 10;
  const double pixels = static_cast<double>(image.height) * static_cast<double>(image.width);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const double area = pixels * random.uniform(options.least_area, options.most_area);
    const double aspect = std::exp(random.uniform(std::log(options.least_aspect), std::log(options.most_aspect)));
    const std::int64_t height = std::llround(std::sqrt(area / aspect)), width = std::llround(std::sqrt(area * aspect));
    if (height < 1 || width < 1 || height > image.height || width > image.width) continue;
    const std::int64_t top = random.below(image.height - height + 1);
    return {top, random.below(image.width - width + 1), height, width};
  }
  return largest_box(image, options);
}

Transformation random_resized_crop(const std::string& component, Size size, std::uint64_t seed,
                                   const RandomCropOptions& options) {
  check_options(options);
  return to_size("random_resized_crop", component, size,
                 [=, key = seed_of("random_resized_crop", seed)](const Tensor& image, const ElementContext& context) {
                   ElementRandom random(key, context);
                   const Box box = random_box(size_of_image(image, "random_resized_crop"), options, random);
                   return resized_crop(image, box, size, options.resize);
                 });
}

Transformation random_flip_left_right(const std::string& component, std::uint64_t seed, double probability) {
  return with_chance("random_flip_left_right", component, seed, probability, flip_left_right);
}

Transformation random_flip_up_down(const std::string& component, std::uint64_t seed, double probability) {
  return with_chance("random_flip_up_down", component, seed, probability, flip_up_down);
}

Transformation random_rotation(const std::string& component, double degrees, std::uint64_t seed, float fill) {
  return with_number("random_rotation", component, check_image, -degrees, degrees, seed,
                     [fill](const Tensor& image, double angle) { return rotate(image, angle, fill); });
}

Transformation random_brightness(const std::string& component, double max_delta, std::uint64_t seed) {
  return with_number("random_brightness", component, check_image, -max_delta, max_delta, seed, adjust_brightness);
}

Transformation random_hue(const std::string& component, double max_delta, std::uint64_t seed) {
  return with_number("random_hue", component, check_colors, -max_delta, max_delta, seed, adjust_hue);
}

Transformation random_contrast(const std::string& component, double lower, double upper, std::uint64_t seed) {
  return with_number("random_contrast", component, check_image, lower, upper, seed, adjust_contrast);
}

Transformation random_saturation(const std::string& component, double lower, double upper, std::uint64_t seed) {
  if (lower < 0) invalid_argument("random_saturation: a factor of {} is negative", lower);
  return with_number("random_saturation", component, check_colors, lower, upper, seed, adjust_saturation);
}

}  // namespace troupe::images
