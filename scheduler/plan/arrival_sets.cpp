#include "troupe/scheduler/plan/arrival_sets.hpp"

#include <algorithm>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::size_t kMaxWords = std::size_t{1} << 26;  // 512 MiB

}  // namespace

std::uint64_t ArrivalSets::hash(const Bits& bits) {
  std::uint64_t h = bits.size();
  for (std::uint64_t word : bits) {
    h = (h ^ word) * 0x9e3779b97f4a7c15ull;
    h ^= h >> 32;
  }
  return h;
}

int ArrivalSets::intern(Bits bits) {
  const std::uint64_t h = hash(bits);
  const auto [begin, end] = by_hash_.equal_range(h);
  for (auto it = begin; it != end; ++it)
    if (sets_[static_cast<std::size_t>(it->second)] == bits) return it->second;
  words_ += bits.size();
  if (words_ > kMaxWords)
    fail(Code::resource_exhausted,
         "the partition awaits too many tensors in too many combinations ({} segments so far)", sets_.size());
  const int number = static_cast<int>(sets_.size());
  sets_.push_back(std::move(bits));
  by_hash_.emplace(h, number);
  return number;
}

int ArrivalSets::with(int set, std::uint32_t arrival) {
  Bits bits = sets_[static_cast<std::size_t>(set)];
  const std::size_t word = arrival / 64;
  if (bits.size() <= word) bits.resize(word + 1);
  bits[word] |= std::uint64_t{1} << (arrival % 64);
  return intern(std::move(bits));
}

int ArrivalSets::join(int a, int b) {
  if (a == b || b == kEmpty) return a;
  if (a == kEmpty) return b;
  const auto [low, high] = std::minmax(a, b);
  const std::uint64_t pair = static_cast<std::uint64_t>(low) << 32 | static_cast<std::uint32_t>(high);
  if (const auto it = unions_.find(pair); it != unions_.end()) return it->second;
  const Bits* longer = &sets_[static_cast<std::size_t>(a)];
  const Bits* shorter = &sets_[static_cast<std::size_t>(b)];
  if (longer->size() < shorter->size()) std::swap(longer, shorter);
  Bits bits = *longer;
  for (std::size_t i = 0; i < shorter->size(); ++i) bits[i] |= (*shorter)[i];
  const int number = intern(std::move(bits));
  unions_.emplace(pair, number);
  return number;
}

}  // namespace troupe
