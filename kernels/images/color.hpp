// Colours of images. An image is u8 or f32 [height, width, channels]; f32 has values from 0 to 1, and u8 is taken as
// 1/255 of them. Results have the image's dtype: f32 ones are not cut to [0, 1], u8 ones are, rounded to the nearest.
// Functions throw invalid_argument for tensors that are no images, for arguments that are not finite, and where three
// channels are needed, red, green and blue, for images that have others.
#pragma once

#include <span>
#include <vector>

#include <troupe/messages/tensor.hpp>

namespace troupe::images {

// x + delta.
Tensor adjust_brightness(const Tensor& image, double delta);
// (x - mean) * factor + mean, with the mean of each channel of the image.
Tensor adjust_contrast(const Tensor& image, double factor);
// Multiplies the saturation (of HSV) by a factor, not negative, and cuts it at 1. RGB.
Tensor adjust_saturation(const Tensor& image, double factor);
// Turns the hue (of HSV) by delta, where 1 is the whole circle. RGB.
Tensor adjust_hue(const Tensor& image, double delta);
// 0.299 R + 0.587 G + 0.114 B (ITU-R BT.601), one channel. RGB.
Tensor rgb_to_grayscale(const Tensor& image);

// (x - mean) / std of each channel, f32. Both have one value, or one per channel, std above 0: those of ImageNet are
// {0.485, 0.456, 0.406} and {0.229, 0.224, 0.225}.
Tensor normalize(const Tensor& image, const std::vector<float>& mean, const std::vector<float>& std);

// Likewise, for several images of as many channels.
class Normalization {
 public:
  Normalization(DType dtype, std::int64_t channels, const std::vector<float>& mean, const std::vector<float>& std);
  // Who reads the result: what comes next, or a batch's reader, when all its rows are there; large rows of a batch are
  // written past the caches.
  enum class Reader : std::uint8_t { next, batch };
  // As many as the image's elements. The image has the dtype and channels given.
  void write(const Tensor& image, float* to, Reader reader) const;

 private:
  std::vector<float> scale_, shift_;  // of some pixels, one after the other
};

}  // namespace troupe::images
