// Fuzz target: the bytes of an unauthenticated stranger.
#include "tests/fuzz/authentication_fuzz.hpp"
#include "tests/fuzz/fuzz_target.hpp"

std::vector<std::string> troupe::fuzz::seeds() { return wire::stranger_seeds(); }
void troupe::fuzz::run(std::string_view input) { wire::say_as_stranger(input); }
