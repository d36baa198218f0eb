// What the fuzzer of CSV and its test share.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// Reads the file of CSV that an input stands for: its first byte says how fields are separated and quoted, and as which
// dtypes they are read. Aborts if anything but data_loss is thrown, or if rows that were read are not the same after
// they are written and read again. Returns how many rows were read.
std::size_t read_csv_of_stranger(std::string_view input);
std::vector<std::string> csv_seeds();

}  // namespace troupe
