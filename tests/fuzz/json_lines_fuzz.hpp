// What the fuzzer of JSON lines and its test share.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// Reads an input, without its first byte, as lines of JSON. Aborts if anything but data_loss is thrown, or if a line
// that is parsed alone and to a row of a batch is not the same. Returns how many lines were objects with all fields.
std::size_t read_json_lines_of_stranger(std::string_view input);
// Their first byte has the highest bit.
std::vector<std::string> json_lines_seeds();

}  // namespace troupe
