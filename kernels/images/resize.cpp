#include "troupe/kernels/images/resize.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <troupe/kernels/images/resize_plan.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::images {
namespace {

constexpr std::int64_t kRowsAtOnce = 16;  // decoded together, as in the blocks of a JPEG: few, so that they stay near

template <class T>
Tensor resized(const Tensor& image, const Box& box, Size size, ResizeOptions options) {
  const std::int64_t channels = image.shape()[2], stride = image.shape()[1] * channels;
  Tensor out(image.dtype(), Shape{size.height, size.width, channels});
  ResizePlan plan(box, size, channels, options);
  const T* from = image.data<T>();
  T* to = out.mutable_data<T>();
  for (std::int64_t j = 0; j < size.height; ++j, to += size.width * channels)
    plan.write_row(j, from + plan.first_row(j) * stride, stride, to);
  return out;
}

// The rows of an image that rows of a result are made of, as they are decoded.
class RowWindow {
 public:
  RowWindow(ImageRows& rows, std::int64_t taps)
      : rows_(rows),
        height_(rows.info().height),
        stride_(rows.info().width * rows.info().channels),
        room_(std::min(height_, taps + kRowsAtOnce)),
        pixels_(DType::u8, Shape{room_ * stride_}) {}
  std::int64_t stride() const { return stride_; }

  // Row `first`, with those up to `end`; neither comes before those of an earlier call.
  const std::uint8_t* at(std::int64_t first, std::int64_t end) {
    while (end_ < end) {
      const std::int64_t kept = std::max<std::int64_t>(end_ - first, 0);
      if (kept > 0) std::memmove(row(0), row(first - begin_), static_cast<std::size_t>(kept * stride_));
      begin_ = end_ - kept;
      const std::int64_t count = std::min({kRowsAtOnce, height_ - end_, room_ - kept});
      rows_.read(row(kept), count);
      end_ += count;
    }
    return row(first - begin_);
  }
  // Decodes the rest, where damage may be.
  void finish() { at(height_, height_); }

 private:
  std::uint8_t* row(std::int64_t i) { return pixels_.mutable_data<std::uint8_t>() + i * stride_; }

  ImageRows& rows_;
  const std::int64_t height_, stride_, room_;
  Tensor pixels_;
  std::int64_t begin_ = 0, end_ = 0;  // the rows in it
};

}  // namespace

std::string_view name(Interpolation interpolation) {
  constexpr std::string_view kNames[] = {"nearest", "bilinear", "area"};
  return kNames[static_cast<std::size_t>(interpolation)];
}

Tensor resize(const Tensor& image, Size size, ResizeOptions options) {
  const Size before = size_of_image(image, "resize");
  return resized_crop(image, {0, 0, before.height, before.width}, size, options);
}

Tensor resized_crop(const Tensor& image, const Box& box, Size size, ResizeOptions options) {
  const Size before = size_of_image(image, "resize");
  check_size(size, "resize");
  check_box(box, before, "resize");
  if (box == Box{0, 0, before.height, before.width} && size == before) return image;
  return image.dtype() == DType::u8 ? resized<std::uint8_t>(image, box, size, options)
                                    : resized<float>(image, box, size, options);
}

Tensor decode_and_resize(std::string_view bytes, const std::string& what, Size size, ResizeOptions options,
                         ImageOptions decoding) {
  check_size(size, "decode_and_resize");
  ImageRows rows(bytes, what, decoding);
  const ImageInfo& info = rows.info();
  Tensor out(DType::u8, Shape{size.height, size.width, info.channels});
  auto* to = out.mutable_data<std::uint8_t>();
  if (size == Size{info.height, info.width}) {
    rows.read(to, info.height);
    return out;
  }
  ResizePlan plan({0, 0, info.height, info.width}, size, info.channels, options);
  RowWindow window(rows, plan.taps());
  for (std::int64_t j = 0; j < size.height; ++j, to += size.width * info.channels) {
    const std::int64_t first = plan.first_row(j);
    plan.write_row(j, window.at(first, first + plan.taps()), window.stride(), to);
  }
  window.finish();
  return out;
}

}  // namespace troupe::images
