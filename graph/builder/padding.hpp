// Padding of convolutions and pooling.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

// same: ceil(input / stride) outputs, padded around the input where needed, an odd element at the end.
// same_lower: the same with an odd element at the beginning.
// valid: only windows entirely inside the input.
// explicit_pads: as many elements as `pads` says.
enum class Padding : std::uint8_t { same, valid, same_lower, explicit_pads };

// Where the channels of images are: [n, spatial..., c] or [n, c, spatial...]. Filters are [spatial..., in / groups,
// out] or [out, in / groups, spatial...].
enum class DataFormat : std::uint8_t { channels_last, channels_first };

// Values of the attributes "padding" and "data_format". parse_ functions throw invalid_argument for another text.
std::string to_string(Padding padding);
std::string to_string(DataFormat format);
Padding parse_padding(std::string_view text);
DataFormat parse_data_format(std::string_view text);

}  // namespace troupe
