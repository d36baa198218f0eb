// Fuzz target: control messages of an authenticated member.
#include "tests/fuzz/control_fuzz.hpp"
#include "tests/fuzz/fuzz_target.hpp"

std::vector<std::string> troupe::fuzz::seeds() { return member_seeds(); }
void troupe::fuzz::run(std::string_view input) { static_cast<void>(say_as_member(input)); }
