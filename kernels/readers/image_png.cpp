// PNG, with libpng.
#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>

#include <troupe/kernels/readers/image_formats.hpp>

namespace troupe {
namespace {

// Deflate expands a byte to at most 1032 (zlib's technical notes).
constexpr std::uint64_t kMaxPngExpansion = 1032;

class PngDecoder final : public ImageDecoder {
 public:
  explicit PngDecoder(std::string_view bytes) : bytes_(bytes) {}
  ~PngDecoder() override { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  bool read_header() override {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, leave, ignore_warning);
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
    if (info_ == nullptr) {
      std::snprintf(message_, sizeof message_, "libpng has no memory");
      return false;
    }
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_read_fn(png_, this, read);
    // Our limit is of pixels.
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    // Chunks that say nothing of pixels are passed over, not decompressed.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_set_crc_action(png_, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    png_read_info(png_, info_);
    return true;
  }

  ImageInfo info() const override {
    const bool color = (png_get_color_type(png_, info_) & PNG_COLOR_MASK_COLOR) != 0;
    return {.format = ImageFormat::png,
            .height = png_get_image_height(png_, info_),
            .width = png_get_image_width(png_, info_),
            .channels = (color ? 3 : 1) + (has_alpha() ? 1 : 0)};
  }

  std::uint64_t least_bytes() const override {
    return std::uint64_t{png_get_image_height(png_, info_)} * png_get_rowbytes(png_, info_) / kMaxPngExpansion;
  }

  bool start(int wanted, int& channels) override {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    const int type = png_get_color_type(png_, info_);
    if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
    if (type == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png_);
    if (png_get_bit_depth(png_, info_) == 16) png_set_strip_16(png_);
    if (wanted == 3 && (type & PNG_COLOR_MASK_COLOR) == 0) png_set_gray_to_rgb(png_);
    if (wanted != 0) {
      png_set_strip_alpha(png_);
    } else if (has_alpha()) {
      png_set_tRNS_to_alpha(png_);
    }
    passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    channels = png_get_channels(png_, info_);
    return true;
  }

  bool in_passes() const override { return passes_ > 1; }

  bool read_rows(std::uint8_t* pixels, std::int64_t count) override {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    const std::size_t row_bytes = png_get_rowbytes(png_, info_), rows = static_cast<std::size_t>(count);
    for (int pass = 0; pass < passes_; ++pass)
      for (std::size_t row = 0; row < rows; ++row) png_read_row(png_, pixels + row * row_bytes, nullptr);
    rows_read_ += rows;
    if (rows_read_ == png_get_image_height(png_, info_)) png_read_end(png_, nullptr);
    return true;
  }

  const char* message() const override { return message_; }

 private:
  // A colour that stands for transparent counts.
  bool has_alpha() const {
    return (png_get_color_type(png_, info_) & PNG_COLOR_MASK_ALPHA) != 0 ||
           png_get_valid(png_, info_, PNG_INFO_tRNS) != 0;
  }

  // Called by libpng.
  [[noreturn]] static void leave(png_structp png, png_const_charp message) {
    auto* decoder = static_cast<PngDecoder*>(png_get_error_ptr(png));
    std::snprintf(decoder->message_, sizeof decoder->message_, "%s", message);
    png_longjmp(png, 1);
  }
  static void ignore_warning(png_structp, png_const_charp) {}
  static void read(png_structp png, png_bytep out, std::size_t count) {
    auto* decoder = static_cast<PngDecoder*>(png_get_io_ptr(png));
    if (count > decoder->bytes_.size() - decoder->at_) png_error(png, "the file ends early");
    std::memcpy(out, decoder->bytes_.data() + decoder->at_, count);
    decoder->at_ += count;
  }

  const std::string_view bytes_;
  std::size_t at_ = 0;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int passes_ = 1;
  std::size_t rows_read_ = 0;
  char message_[256] = "";
};

}  // namespace

std::unique_ptr<ImageDecoder> png_decoder(std::string_view bytes) { return std::make_unique<PngDecoder>(bytes); }

}  // namespace troupe
