// Parts of the kernels for strings that are useful elsewhere.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <troupe/messages/tensor.hpp>

namespace troupe {

// In [0, buckets), evenly: FNV-1a, then the finaliser of splitmix64 (Steele, Lea & Flood 2014).
std::int64_t hash_bucket(std::string_view text, std::uint64_t seed, std::int64_t buckets);
// The splits, which must begin with 0, end with `values`, and ascend. Throws invalid_argument.
std::span<const std::int64_t> checked_splits(const Tensor& row_splits, std::int64_t values);

}  // namespace troupe
