// Parts of images, images with borders, mirrored and rotated ones. An image is u8 or f32 [height, width, channels].
#pragma once

#include <cstdint>

#include <troupe/kernels/images/image_box.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe::images {

Tensor crop(const Tensor& image, const Box& box);
// Where the centre of an image lies: of an odd rest, one pixel less is left out before than behind.
Box center_box(Size image, Size size);
Tensor center_crop(const Tensor& image, Size size);

struct Padding {
  std::int64_t top = 0, bottom = 0, left = 0, right = 0;  // pixels, none negative
};
// `value`: of the border's pixels, in all channels. Throws invalid_argument for one that u8 does not have.
Tensor pad(const Tensor& image, const Padding& padding, float value = 0);

Tensor flip_left_right(const Tensor& image);
Tensor flip_up_down(const Tensor& image);

// Turns it counter-clockwise about its centre, to an image of the same size: bilinear, where pixels beyond the edge are
// `fill`, in all channels. Sums are f32; u8 results are rounded to the nearest.
Tensor rotate(const Tensor& image, double degrees, float fill = 0);

}  // namespace troupe::images
