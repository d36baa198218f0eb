#include "troupe/kernels/images/image_box.hpp"

#include <troupe/messages/error.hpp>

namespace troupe::images {

Size size_of_image(const Tensor& image, std::string_view function) {
  if (!image.valid() || (image.dtype() != DType::u8 && image.dtype() != DType::f32) || image.shape().rank() != 3 ||
      image.num_elements() == 0)
    invalid_argument("{}: an image is u8 or f32 [height, width, channels], not {}{}", function,
                     troupe::name(image.dtype()), image.valid() ? image.shape().to_string() : "");
  return {image.shape()[0], image.shape()[1]};
}

void check_box(const Box& box, Size image, std::string_view function) {
  if (box.height < 1 || box.width < 1 || box.top < 0 || box.left < 0 || box.height > image.height ||
      box.width > image.width || box.top > image.height - box.height || box.left > image.width - box.width)
    invalid_argument("{}: a box of {} x {} pixels at row {}, column {} does not lie in an image of {} x {}", function,
                     box.height, box.width, box.top, box.left, image.height, image.width);
}

void check_size(Size size, std::string_view function) {
  if (size.height < 1 || size.width < 1)
    invalid_argument("{}: an image of {} x {} pixels", function, size.height, size.width);
}

}  // namespace troupe::images
