// What the fuzzer of bodies of the REST door and its test share.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// Reads the body that an input stands for: its first byte says of which protocol, and for which dtype. Aborts if
// anything but invalid_argument, resource_exhausted or unimplemented is thrown, or if tensors that were read are not
// the same after they are printed and read again. Also looks for tags in the input, as in the header If-Match. Returns
// how many tensors were read.
std::size_t read_rest_body_of_stranger(std::string_view input);
std::vector<std::string> rest_body_seeds();

}  // namespace troupe
