// Sizes and parts of images, tensors u8 or f32 [height, width, channels], of which no dimension is 0. Functions on
// images throw invalid_argument for other tensors, and for boxes that do not lie in the image.
#pragma once

#include <cstdint>
#include <string_view>

#include <troupe/messages/tensor.hpp>

namespace troupe::images {

struct Size {
  std::int64_t height = 0, width = 0;
  bool operator==(const Size&) const = default;
};

// Rows [top, top + height), columns [left, left + width).
struct Box {
  std::int64_t top = 0, left = 0, height = 0, width = 0;
  bool operator==(const Box&) const = default;
};

// Throw invalid_argument, beginning with `function`.
Size size_of_image(const Tensor& image, std::string_view function);
void check_box(const Box& box, Size image, std::string_view function);
void check_size(Size size, std::string_view function);  // neither below 1

}  // namespace troupe::images
