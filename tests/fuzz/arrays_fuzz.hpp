// What the fuzzer of array files as sources and its test share.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// Reads the rows of the file that an input stands for: its first byte says whether the rest is an .npy, .npz or IDX
// file. Aborts if anything but Error is thrown, if rows differ from those of the whole array, or if rows that are read
// from a position differ. Returns how many rows were read.
std::size_t read_arrays_of_stranger(std::string_view input);
std::vector<std::string> array_seeds();

}  // namespace troupe
