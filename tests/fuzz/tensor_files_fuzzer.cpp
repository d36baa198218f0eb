// Fuzz target: files of tensors of unknown origin.
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/tensor_files_fuzz.hpp"

std::vector<std::string> troupe::fuzz::seeds() { return tensor_file_seeds(); }
void troupe::fuzz::run(std::string_view input) { static_cast<void>(read_tensors_of_stranger(input)); }
