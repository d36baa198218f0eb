// What the fuzzer of images and its test share.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// Decodes the image that an input stands for, with the channels that its first byte says. Aborts if anything but Error
// is thrown, or an image is not as its header says. Returns the number of its pixels.
std::size_t decode_image_of_stranger(std::string_view input);
std::vector<std::string> image_seeds();

}  // namespace troupe
