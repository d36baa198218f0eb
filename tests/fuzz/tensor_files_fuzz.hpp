// What the fuzzer of files of tensors and its test share.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// Reads the file that an input stands for: its first byte says whether the rest is a .safetensors, .npz or .npy file.
// Aborts if anything but Error is thrown, or tensors that were read cannot be written and read again. Returns how many
// tensors were read.
std::size_t read_tensors_of_stranger(std::string_view input);
std::vector<std::string> tensor_file_seeds();

}  // namespace troupe
