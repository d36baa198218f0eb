// What the fuzzer of authentication.hpp and its test share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace troupe::wire {

// What strangers say: the first byte says to which side and in what pieces, the rest is said. Aborts if it is taken for
// a proof, or more is read than the protocol has.
void say_as_stranger(std::string_view input);
std::vector<std::string> stranger_seeds();

}  // namespace troupe::wire
