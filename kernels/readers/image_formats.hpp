// The decoders of image.hpp, which checks what is the same of both formats.
//
// libjpeg and libpng leave their functions by longjmp(): a decoder's functions that set the place to return to have
// only trivial objects and return false; allocations and exceptions are their callers'.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <troupe/kernels/readers/image.hpp>

namespace troupe {

// Reads one image, whose bytes outlive it. Functions that return bool return false for an error; then only message()
// may be called.
class ImageDecoder {
 public:
  virtual ~ImageDecoder() = default;
  // Reads the part before the pixels.
  virtual bool read_header() = 0;
  virtual ImageInfo info() const = 0;
  // Why Troupe cannot decode it; empty: it can.
  virtual std::string unsupported() const { return ""; }
  // How many bytes the file has at least if all its pixels are there.
  virtual std::uint64_t least_bytes() const = 0;
  // Makes ready for pixels of `wanted` channels (0: as stored), and says how many they will have. More than wanted have
  // to be converted: 3 are RGB; 4 are the light that cyan, magenta, yellow and black let through.
  virtual bool start(int wanted, int& channels) = 0;
  // Whether pixels come several times, ever finer, so that all rows have to be read at once.
  virtual bool in_passes() const { return false; }
  // Writes the next rows, [count, width, channels]. With the last one the file is read to its end.
  virtual bool read_rows(std::uint8_t* pixels, std::int64_t count) = 0;
  virtual const char* message() const = 0;  // the library's
};

std::unique_ptr<ImageDecoder> jpeg_decoder(std::string_view bytes);
std::unique_ptr<ImageDecoder> png_decoder(std::string_view bytes);

}  // namespace troupe
