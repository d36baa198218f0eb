// Fuzz target: saved models of unknown origin.
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/saved_model_fuzz.hpp"

std::vector<std::string> troupe::fuzz::seeds() { return saved_model_seeds(); }
void troupe::fuzz::run(std::string_view input) { static_cast<void>(read_model_of_stranger(input)); }
