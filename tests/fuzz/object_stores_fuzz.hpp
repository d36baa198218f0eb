// What the fuzzer of answers of object stores and its test share.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// Reads the input as a page of a listing of "d/", and as an error. Aborts if anything but Error is thrown, or what was
// read breaks a promise. Returns the number of entries.
std::size_t read_answer_of_stranger(std::string_view input);
std::vector<std::string> object_store_seeds();

}  // namespace troupe
