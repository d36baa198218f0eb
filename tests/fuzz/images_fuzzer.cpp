// Fuzz target: images of unknown origin.
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/images_fuzz.hpp"

std::vector<std::string> troupe::fuzz::seeds() { return image_seeds(); }
void troupe::fuzz::run(std::string_view input) { static_cast<void>(decode_image_of_stranger(input)); }
