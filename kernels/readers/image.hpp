// Images in files: JPEG (ITU-T T.81, JFIF) and PNG (ISO/IEC 15948), recognised by their first bytes.
//
// Pixels are u8 [height, width, channels], row by row from the top, as the file stores them: colour profiles, gamma and
// the orientation of Exif are not applied. Of 16 bits per channel the high 8 remain. JPEG is decoded by libjpeg-turbo
// with its defaults (accurate integer DCT, smooth upsampling); CMYK becomes RGB. Grey is made of colours as
// 0.299 R + 0.587 G + 0.114 B.
//
// Files are untrusted: dimensions are checked before pixels are allocated. Errors begin with `what`:
//   data_loss           the image is damaged or cut, with the library's words: there are no partly decoded images.
//                       Warnings of libjpeg count, too, and wrong checksums of PNG
//   resource_exhausted  more than max_pixels
//   unimplemented       neither format, or a JPEG with unknown colours
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/messages/tensor.hpp>

namespace troupe {

enum class ImageFormat : std::uint8_t { jpeg, png };

std::string_view name(ImageFormat format);  // "JPEG", "PNG"

struct ImageInfo {
  ImageFormat format = ImageFormat::jpeg;
  std::int64_t height = 0, width = 0;
  std::int64_t channels = 0;  // 1: grey, 2: grey and alpha, 3: RGB, 4: RGB and alpha (of PNG, also with a palette)
  bool operator==(const ImageInfo&) const = default;
};

struct ImageOptions {
  int channels = 0;  // 0: as stored; 1: grey, 3: RGB, both without alpha
  std::int64_t max_pixels = std::int64_t{1} << 28;
};

// Reads what stands before the pixels. `what` is the name in errors: a path.
ImageInfo image_info(std::string_view bytes, const std::string& what);

class ImageDecoder;

// Decodes an image from its top, some rows at a time, so that what is made of it need not wait in memory. Not
// thread-safe.
class ImageRows {
 public:
  // `bytes` outlive it. Throws invalid_argument for other channels.
  ImageRows(std::string_view bytes, std::string what, ImageOptions options = {});
  ~ImageRows();
  ImageRows(const ImageRows&) = delete;
  ImageRows& operator=(const ImageRows&) = delete;

  const ImageInfo& info() const { return info_; }  // its channels are those of decoded pixels
  // Writes the next rows, [rows, width, channels]. Images of passes (interlaced PNG) are decoded whole at the first
  // call. Damage may be found at any call, up to that of the last row. Throws invalid_argument for more rows than are
  // left.
  void read(std::uint8_t* to, std::int64_t rows);

 private:
  void decode(std::uint8_t* to, std::int64_t rows);
  std::string what_;
  std::unique_ptr<ImageDecoder> decoder_;
  ImageInfo info_;
  std::int64_t stored_ = 0;  // channels
  std::int64_t read_ = 0;    // rows
  std::vector<std::uint8_t> buffer_;
};

// Throws invalid_argument for other channels.
Tensor decode_image(std::string_view bytes, const std::string& what, ImageOptions options = {});

}  // namespace troupe
