// Fuzz target: the bytes of a peer on the wire.
#include "tests/fuzz/frame_fuzz.hpp"
#include "tests/fuzz/fuzz_target.hpp"

std::vector<std::string> troupe::fuzz::seeds() { return wire::frame_seeds(); }
void troupe::fuzz::run(std::string_view input) { static_cast<void>(wire::read_as_peer(input)); }
