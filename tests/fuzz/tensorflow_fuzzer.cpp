// Fuzz target: SavedModels of TensorFlow of unknown origin.
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/tensorflow_fuzz.hpp"

std::vector<std::string> troupe::fuzz::seeds() { return tensorflow_seeds(); }
void troupe::fuzz::run(std::string_view input) { static_cast<void>(import_tensorflow_of_stranger(input)); }
