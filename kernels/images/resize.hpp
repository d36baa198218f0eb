// Images of other sizes. An image is u8 or f32 [height, width, channels].
//
// Pixels are squares, with their centres at halves: pixel j of a result lies at (j + 0.5) * before / after - 0.5, as in
// tf.image.resize and torchvision. Beyond the edge the image continues with its edge. Sums are f32; u8 results are
// rounded to the nearest, halves up. Work and memory are in proportion to the image and the result.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <troupe/kernels/images/image_box.hpp>
#include <troupe/kernels/readers/image.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe::images {

enum class Interpolation : std::uint8_t {
  nearest,   // the pixel in which the place lies
  bilinear,  // of the 4 pixels around the place
  area,      // the mean of what the pixel of the result covers
};

std::string_view name(Interpolation interpolation);  // "nearest", "bilinear", "area"

struct ResizeOptions {
  Interpolation interpolation = Interpolation::bilinear;
  // bilinear: where the image shrinks, the weights of pixels reach as far as the pixel of the result is wide.
  bool antialias = false;
};

// An image of the same size is returned as it is.
Tensor resize(const Tensor& image, Size size, ResizeOptions options = {});
// As resize() of crop(): of the same bits, without the copy.
Tensor resized_crop(const Tensor& image, const Box& box, Size size, ResizeOptions options = {});

// As resize() of decode_image(), and throws what both do: of the same bits, but the image itself is never in memory as
// a whole. `what`: the name in errors.
Tensor decode_and_resize(std::string_view bytes, const std::string& what, Size size, ResizeOptions options = {},
                         ImageOptions decoding = {});

}  // namespace troupe::images
