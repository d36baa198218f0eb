// Records of TensorBoard event files (TFRecord): little-endian
//
//   8 bytes  length of the data        4 bytes  masked CRC-32C of these 8 bytes
//   data                               4 bytes  masked CRC-32C of the data
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

// A CRC that is safe inside data which is itself checksummed: rotated right by 15 bits, plus 0xa282ead8.
std::uint32_t masked_crc32c(std::string_view bytes);

std::string record_of(std::string_view data);

}  // namespace troupe
