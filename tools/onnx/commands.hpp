// The commands of troupe-onnx. Each prints its result to stdout and returns the exit code.
#pragma once

#include <string>
#include <vector>

namespace troupe::onnx_tool {

// Runs the models of folders in the layout of ONNX's tests, and compares their outputs.
int test(const std::vector<std::string>& folders, bool json);

}  // namespace troupe::onnx_tool
