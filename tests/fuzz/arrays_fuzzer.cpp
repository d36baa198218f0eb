// Fuzz target: files of arrays of unknown origin, as sources of pipelines.
#include "tests/fuzz/arrays_fuzz.hpp"
#include "tests/fuzz/fuzz_target.hpp"

std::vector<std::string> troupe::fuzz::seeds() { return array_seeds(); }
void troupe::fuzz::run(std::string_view input) { static_cast<void>(read_arrays_of_stranger(input)); }
