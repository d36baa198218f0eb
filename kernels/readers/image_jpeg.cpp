// JPEG, with libjpeg-turbo's libjpeg API.
#include "troupe/kernels/readers/image_formats.hpp"
// Needs size_t and FILE, which <string> has declared.
#include <jpeglib.h>

#include <csetjmp>
#include <cstdio>

namespace troupe {
namespace {

// Each scan of a progressive image passes over all pixels: a small file with very many would take hours.
constexpr int kMaxJpegScans = 500;

class JpegDecoder final : public ImageDecoder {
 public:
  explicit JpegDecoder(std::string_view bytes) : bytes_(bytes) {}
  ~JpegDecoder() override { jpeg_destroy_decompress(&jpeg_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  bool read_header() override {
    jpeg_.err = jpeg_std_error(&errors_);
    jpeg_.client_data = this;
    errors_.error_exit = leave;
    errors_.emit_message = leave_at_warning;
    if (setjmp(back_) != 0) return false;
    jpeg_create_decompress(&jpeg_);
    progress_.progress_monitor = limit_scans;
    jpeg_.progress = &progress_;
    jpeg_mem_src(&jpeg_, reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size());
    jpeg_read_header(&jpeg_, TRUE);
    return true;
  }

  ImageInfo info() const override {
    return {.format = ImageFormat::jpeg,
            .height = jpeg_.image_height,
            .width = jpeg_.image_width,
            .channels = jpeg_.jpeg_color_space == JCS_GRAYSCALE ? 1 : 3};
  }

  std::string unsupported() const override {
    if (is_cmyk() || jpeg_.jpeg_color_space == JCS_GRAYSCALE || jpeg_.jpeg_color_space == JCS_YCbCr ||
        jpeg_.jpeg_color_space == JCS_RGB)
      return "";
    return std::to_string(jpeg_.num_components) + " components of unknown colours";
  }

  // A code of Huffman's has at least a bit, and each block of 8 x 8 values at least one code. Arithmetic codes have no
  // such bound.
  std::uint64_t least_bytes() const override {
    if (jpeg_.arith_code) return 0;
    std::uint64_t blocks = 0;
    for (int i = 0; i < jpeg_.num_components; ++i)
      blocks += std::uint64_t{jpeg_.comp_info[i].width_in_blocks} * jpeg_.comp_info[i].height_in_blocks;
    return blocks / 8;
  }

  bool start(int wanted, int& channels) override {
    if (setjmp(back_) != 0) return false;
    const bool grey = wanted == 1 || (wanted == 0 && jpeg_.jpeg_color_space == JCS_GRAYSCALE);
    jpeg_.out_color_space = is_cmyk() ? JCS_CMYK : grey ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(&jpeg_);
    channels = jpeg_.output_components;
    return true;
  }

  bool read_rows(std::uint8_t* pixels, std::int64_t count) override {
    if (setjmp(back_) != 0) return false;
    const std::size_t row_bytes = std::size_t{jpeg_.output_width} * static_cast<std::size_t>(jpeg_.output_components);
    const JDIMENSION first = jpeg_.output_scanline, end = first + static_cast<JDIMENSION>(count);
    while (jpeg_.output_scanline < end) {
      JSAMPROW row = pixels + (jpeg_.output_scanline - first) * row_bytes;
      jpeg_read_scanlines(&jpeg_, &row, 1);
      // Adobe's programs write light, as we want it; the standard's CMYK is ink.
      if (is_cmyk() && !jpeg_.saw_Adobe_marker)
        for (std::size_t i = 0; i < row_bytes; ++i) row[i] = static_cast<JSAMPLE>(255 - row[i]);
    }
    if (end < jpeg_.output_height) return true;
    // A component without a scan would be grey.
    for (int i = 0; i < jpeg_.num_components; ++i)
      if (jpeg_.comp_info[i].quant_table == nullptr) {
        std::snprintf(message_, sizeof message_, "component %d has no data", i);
        return false;
      }
    jpeg_finish_decompress(&jpeg_);  // reads up to the end mark
    return true;
  }

  const char* message() const override { return message_; }

 private:
  bool is_cmyk() const { return jpeg_.jpeg_color_space == JCS_CMYK || jpeg_.jpeg_color_space == JCS_YCCK; }

  // Called by libjpeg.
  [[noreturn]] static void leave(j_common_ptr jpeg) {
    auto* decoder = static_cast<JpegDecoder*>(jpeg->client_data);
    jpeg->err->format_message(jpeg, decoder->message_);
    std::longjmp(decoder->back_, 1);
  }
  static void leave_at_warning(j_common_ptr jpeg, int level) {
    if (level < 0) leave(jpeg);
  }
  static void limit_scans(j_common_ptr jpeg) {
    auto* decoder = static_cast<JpegDecoder*>(jpeg->client_data);
    if (decoder->jpeg_.input_scan_number <= kMaxJpegScans) return;
    std::snprintf(decoder->message_, sizeof decoder->message_, "more than %d scans", kMaxJpegScans);
    std::longjmp(decoder->back_, 1);
  }

  const std::string_view bytes_;
  jpeg_decompress_struct jpeg_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf back_;
  char message_[JMSG_LENGTH_MAX] = "";
};

}  // namespace

std::unique_ptr<ImageDecoder> jpeg_decoder(std::string_view bytes) { return std::make_unique<JpegDecoder>(bytes); }

}  // namespace troupe
