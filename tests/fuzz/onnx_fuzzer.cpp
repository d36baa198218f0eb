// Fuzz target: ONNX models of unknown origin.
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/onnx_fuzz.hpp"

std::vector<std::string> troupe::fuzz::seeds() { return onnx_seeds(); }
void troupe::fuzz::run(std::string_view input) { static_cast<void>(import_as_stranger(input)); }
