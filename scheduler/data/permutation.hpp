// The order in which an epoch visits the training examples.
#pragma once

#include <cstdint>
#include <vector>

namespace troupe {

// Returns a uniformly random permutation of 0 … n-1 that depends only on the arguments: Durstenfeld's form of the
// Fisher-Yates shuffle (CACM 7, 1964) on the words of a Philox stream of (seed, epoch), each mapped to its range
// without bias by Lemire's multiplication (TOMACS 29, 2019). Every worker computes it independently. Throws
// invalid_argument if n does not fit in 32 bits.
std::vector<std::uint32_t> permutation(std::uint64_t seed, std::uint64_t epoch, std::uint64_t n);

}  // namespace troupe
