// What the fuzzer of control_guard.hpp and its test share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// What a member says to CAF: the first byte says whether it was dialled, the rest is said. What the guard lets pass is
// read by CAF. Returns how many messages have passed.
std::size_t say_as_member(std::string_view input);
// What nodes say.
std::vector<std::string> member_seeds();

}  // namespace troupe
