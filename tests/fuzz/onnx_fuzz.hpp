// What the fuzzer of ONNX models and its test share.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// The model that an input stands for: its first byte says whether the rest is a file, or instructions to make one of
// ops that are known, with any inputs and attributes.
std::string onnx_model_of(std::string_view input);

// Imports that model. Aborts if anything but Error is thrown, or the graph that comes out
// cannot be written and read again. Returns how many nodes it has, 0 if the model was refused.
std::size_t import_as_stranger(std::string_view input);
std::vector<std::string> onnx_seeds();

}  // namespace troupe
