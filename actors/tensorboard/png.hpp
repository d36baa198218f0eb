// Images as PNG (ISO/IEC 15948): 8 bits per channel, not interlaced.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace troupe {

// `pixels`: [height, width, channels], row by row from the top. 1 channel is grey, 2 grey and alpha, 3 RGB, 4 RGB and
// alpha. Throws invalid_argument for another number of pixels or channels, or an empty image.
std::string png_of(std::span<const std::uint8_t> pixels, std::int64_t height, std::int64_t width,
                   std::int64_t channels);

}  // namespace troupe
