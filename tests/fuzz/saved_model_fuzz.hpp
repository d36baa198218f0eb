// What the fuzzer of saved models and its test share.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// Reads what an input stands for: its first byte says whether the rest is the model.pb of a saved model, its
// metadata.json, a network, or options as text. Aborts if anything but Error is thrown, or what was read cannot be
// written and read again. Returns whether it was read.
bool read_model_of_stranger(std::string_view input);
std::vector<std::string> saved_model_seeds();

}  // namespace troupe
