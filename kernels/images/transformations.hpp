// Functions on images for pipelines, each a line:
//
//   const auto train = data::image_folder("flowers")  // image u8[?,?,3], label i64[]
//                          .shuffle(7)
//                          .map(images::random_resized_crop("image", {224, 224}, 7))
//                          .map(images::random_flip_left_right("image", 7))
//                          .map(images::normalize("image", {0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}))
//                          .batch(64);  // image f32[64,224,224,3], label i64[64]
//
// Each works on the component that it names, an image u8 or f32 [height, width, channels]; resize.hpp, geometry.hpp and
// color.hpp say what it does. Arguments are checked when the pipeline is built.
//
// Random ones draw from (seed, epoch, number of the element) (data::ElementRandom), so an element becomes the same
// wherever it is made. Different functions with one seed draw different numbers; the same function with the same seed
// does the same to another component: to an image, and to the mask that belongs to it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <troupe/graph/data/element_random.hpp>
#include <troupe/graph/data/pipeline.hpp>
#include <troupe/kernels/images/color.hpp>
#include <troupe/kernels/images/geometry.hpp>
#include <troupe/kernels/images/resize.hpp>
#include <troupe/kernels/readers/image.hpp>

namespace troupe::images {

using data::Transformation;

// The bytes of a file, string [], to u8 [?, ?, channels]. Errors name the element's number.
Transformation decode(const std::string& component, const ImageOptions& options = {.channels = 3});
// Likewise, to u8 [height, width, channels]: faster than both after each other.
Transformation decode_and_resize(const std::string& component, Size size, ResizeOptions options = {},
                                 const ImageOptions& decoding = {.channels = 3});

Transformation resize(const std::string& component, Size size, ResizeOptions options = {});
Transformation center_crop(const std::string& component, Size size);
Transformation pad(const std::string& component, const Padding& padding, float value = 0);
Transformation rgb_to_grayscale(const std::string& component);
Transformation normalize(const std::string& component, const std::vector<float>& mean, const std::vector<float>& std);

// Anywhere in the image, each place equally likely.
Transformation random_crop(const std::string& component, Size size, std::uint64_t seed);

struct RandomCropOptions {
  double least_area = 0.08, most_area = 1;               // of the image: uniform
  double least_aspect = 3.0 / 4, most_aspect = 4.0 / 3;  // width / height: its logarithm is uniform
  ResizeOptions resize{};
};
// A box of that area and aspect anywhere in the image, resized; after ten draws that do not fit, the largest box in the
// centre. As torchvision's RandomResizedCrop (Szegedy et al., "Going deeper with convolutions", 2014).
Transformation random_resized_crop(const std::string& component, Size size, std::uint64_t seed,
                                   const RandomCropOptions& options = {});

Transformation random_flip_left_right(const std::string& component, std::uint64_t seed, double probability = 0.5);
Transformation random_flip_up_down(const std::string& component, std::uint64_t seed, double probability = 0.5);
// By an angle from -degrees to degrees.
Transformation random_rotation(const std::string& component, double degrees, std::uint64_t seed, float fill = 0);
// By a delta from -max_delta to max_delta.
Transformation random_brightness(const std::string& component, double max_delta, std::uint64_t seed);
Transformation random_hue(const std::string& component, double max_delta, std::uint64_t seed);
// By a factor from lower to upper.
Transformation random_contrast(const std::string& component, double lower, double upper, std::uint64_t seed);
Transformation random_saturation(const std::string& component, double lower, double upper, std::uint64_t seed);

// The box that random_resized_crop() takes of an image.
Box random_box(Size image, const RandomCropOptions& options, data::ElementRandom& random);

}  // namespace troupe::images
