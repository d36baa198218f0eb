// Sets of arrivals, interned: equal sets have equal numbers, so that nodes are grouped into segments by comparing
// integers.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace troupe {

class ArrivalSets {
 public:
  static constexpr int kEmpty = 0;

  ArrivalSets() : sets_(1) { by_hash_.emplace(hash(sets_[0]), kEmpty); }
  // `set` with arrival number `arrival` added. Throws resource_exhausted if the sets together become too large.
  int with(int set, std::uint32_t arrival);
  // The union of two sets; known unions cost one look-up.
  int join(int a, int b);

 private:
  using Bits = std::vector<std::uint64_t>;  // without trailing zeros
  static std::uint64_t hash(const Bits& bits);
  int intern(Bits bits);

  std::vector<Bits> sets_;
  std::unordered_multimap<std::uint64_t, int> by_hash_;
  std::unordered_map<std::uint64_t, int> unions_;  // by the two numbers, the smaller one in the high half
  std::size_t words_ = 0;
};

}  // namespace troupe
