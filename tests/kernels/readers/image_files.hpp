// Image files for tests, written by libjpeg and libpng.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

// After <cstdio>, which it needs.
#include <jpeglib.h>
#include <png.h>

namespace troupe::testing {

struct JpegForm {
  J_COLOR_SPACE from = JCS_RGB;  // of the pixels: JCS_GRAYSCALE, JCS_RGB, JCS_CMYK
  bool progressive = false;
  std::vector<jpeg_scan_info> scans{};  // none: one scan, or the usual ones of a progressive image
  bool adobe = true;                    // a CMYK file has Adobe's mark
};

// Pixels of [height, width, channels].
inline std::string jpeg_file(const std::vector<std::uint8_t>& pixels, unsigned height, unsigned width,
                             const JpegForm& form = {}) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &bytes, &size);
  jpeg.image_height = height;
  jpeg.image_width = width;
  jpeg.in_color_space = form.from;
  jpeg.input_components = form.from == JCS_GRAYSCALE ? 1 : form.from == JCS_CMYK ? 4 : 3;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 95, TRUE);
  jpeg.write_Adobe_marker = form.from == JCS_CMYK && form.adobe ? TRUE : FALSE;
  if (form.progressive) jpeg_simple_progression(&jpeg);
  if (!form.scans.empty()) {
    jpeg.scan_info = form.scans.data();
    jpeg.num_scans = static_cast<int>(form.scans.size());
  }
  jpeg_start_compress(&jpeg, TRUE);
  for (unsigned y = 0; y < height; ++y) {
    auto* row =
        const_cast<JSAMPLE*>(pixels.data() + std::size_t{y} * width * static_cast<unsigned>(jpeg.input_components));
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  std::string out(reinterpret_cast<const char*>(bytes), size);
  jpeg_destroy_compress(&jpeg);
  std::free(bytes);
  return out;
}

// As libjpeg decodes it.
inline std::vector<std::uint8_t> jpeg_pixels(const std::string& file, J_COLOR_SPACE to) {
  jpeg_decompress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&jpeg, TRUE);
  jpeg.out_color_space = to;
  jpeg_start_decompress(&jpeg);
  const std::size_t row_bytes = std::size_t{jpeg.output_width} * static_cast<unsigned>(jpeg.output_components);
  std::vector<std::uint8_t> out(row_bytes * jpeg.output_height);
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW row = out.data() + row_bytes * jpeg.output_scanline;
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  jpeg_destroy_decompress(&jpeg);
  return out;
}

struct PngForm {
  int type = PNG_COLOR_TYPE_RGB;
  int depth = 8;
  bool interlaced = false;
  bool transparent = false;  // sample 1 of a palette, of others the colour whose samples are all 1
};

inline unsigned png_samples(int type) {
  return type == PNG_COLOR_TYPE_RGB ? 3 : type == PNG_COLOR_TYPE_RGBA ? 4 : type == PNG_COLOR_TYPE_GRAY_ALPHA ? 2 : 1;
}

// Colour i of the palette.
inline png_color png_palette(unsigned i) {
  const auto byte = [](unsigned x) { return static_cast<png_byte>(x); };
  return {byte(i * 3), byte(255 - i), byte(i * 7)};
}

// Samples of [height, width, samples of a pixel], below 2^depth.
inline std::string png_file(const std::vector<unsigned>& samples, unsigned height, unsigned width, PngForm form = {}) {
  std::string out;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &out,
      [](png_structp p, png_bytep bytes, std::size_t size) {
        static_cast<std::string*>(png_get_io_ptr(p))->append(reinterpret_cast<const char*>(bytes), size);
      },
      nullptr);
  png_set_IHDR(png, info, width, height, form.depth, form.type, form.interlaced ? PNG_INTERLACE_ADAM7 : 0, 0, 0);
  if (form.type == PNG_COLOR_TYPE_PALETTE) {
    std::vector<png_color> palette;
    for (unsigned i = 0; i < 1U << form.depth; ++i) palette.push_back(png_palette(i));
    png_set_PLTE(png, info, palette.data(), static_cast<int>(palette.size()));
  }
  if (form.transparent) {
    const png_byte alpha[] = {255, 0};
    const png_color_16 color = {1, 1, 1, 1, 1};
    png_set_tRNS(png, info, alpha, 2, &color);
  }
  png_write_info(png, info);
  const unsigned row_samples = width * png_samples(form.type), depth = static_cast<unsigned>(form.depth);
  const std::size_t row_bytes = (row_samples * depth + 7) / 8;
  std::vector<png_byte> packed(row_bytes * height);
  std::vector<png_bytep> rows;
  for (unsigned y = 0; y < height; ++y) {
    png_bytep row = packed.data() + y * row_bytes;
    rows.push_back(row);
    for (unsigned i = 0; i < row_samples; ++i) {
      const unsigned sample = samples[y * row_samples + i];
      if (depth == 16) row[2 * i] = static_cast<png_byte>(sample >> 8), row[2 * i + 1] = static_cast<png_byte>(sample);
      if (depth <= 8)
        row[i * depth / 8] = static_cast<png_byte>(row[i * depth / 8] | sample << (8 - depth - i * depth % 8));
    }
  }
  png_write_image(png, rows.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return out;
}

}  // namespace troupe::testing
