// Fuzz target: bodies that are sent to the REST door.
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/rest_bodies_fuzz.hpp"

std::vector<std::string> troupe::fuzz::seeds() { return rest_body_seeds(); }

void troupe::fuzz::run(std::string_view input) { static_cast<void>(read_rest_body_of_stranger(input)); }
