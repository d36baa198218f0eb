// Philox4x32-10, the counter-based generator of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
// Stateless: the same key and counter give the same four words on any device.
#pragma once

#include <array>
#include <cstdint>

#include <troupe/messages/ids.hpp>

namespace troupe {

using PhiloxBlock = std::array<std::uint32_t, 4>;

constexpr PhiloxBlock philox(PhiloxBlock counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// A stream of blocks named by 64 bits of key and 64 bits of stream; `index` counts its blocks, from `first` on.
struct PhiloxStream {
  std::uint64_t key = 0;
  std::uint64_t stream = 0;
  std::uint64_t first = 0;
  constexpr PhiloxBlock block(std::uint64_t index) const {
    index += first;
    return philox({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                   static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)},
                  {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)});
  }
};

// splitmix64's finalizer: spreads structured values (steps, hashes) over 64 bits. Steele et al., OOPSLA 2014.
constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// The stream of a node in a step. `key`: the session's and the step's.
constexpr PhiloxStream random_stream(const RandomKey& key, std::uint64_t node) {
  return {key.seed, mix64(mix64(node ^ key.step) ^ key.slot)};
}
// A node's number, from the hash of its name and its seed attribute.
constexpr std::uint64_t random_node(std::uint64_t hash, std::int64_t seed) {
  return mix64(hash ^ static_cast<std::uint64_t>(seed));
}

// A float in [0, 1) from 24 bits.
constexpr float uniform_float(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }
// A double in [0, 1) from 53 bits.
constexpr double uniform_double(std::uint32_t high, std::uint32_t low) {
  return static_cast<double>(((std::uint64_t{high} << 32) | low) >> 11) * 0x1p-53;
}

}  // namespace troupe
