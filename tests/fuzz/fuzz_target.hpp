// What a fuzzer is made of: fuzzer.cpp has its main(), each target the rest.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace troupe::fuzz {

// Good inputs, to begin with.
std::vector<std::string> seeds();
// Aborts if the input breaks a promise.
void run(std::string_view input);

}  // namespace troupe::fuzz
