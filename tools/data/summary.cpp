#include "tools/data/summary.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include <troupe/messages/element_types.hpp>

namespace troupe::data_tool {
namespace {

// FNV-1a (Fowler, Noll, Vo), with the finalizer of MurmurHash3 so that all bits depend on all bytes.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccd;
  hash = (hash ^ hash >> 33) * 0xc4ceb9fe1a85ec53;
  return hash ^ hash >> 33;
}

}  // namespace

void NumberSummary::add(long double value) {
  ++count;
  if (std::isnan(value)) {
    ++nans;
    return;
  }
  least = std::min(least, value);
  greatest = std::max(greatest, value);
  if (value == 0) ++zeros;
  if (std::isinf(value)) {
    ++infinite;
    return;
  }
  const double distance = static_cast<double>(value - static_cast<long double>(mean));
  mean += distance / static_cast<double>(++finite_);
  // Rounded, the mean of 64-bit integers may lie beyond the value.
  squares_ += std::max(0.0, distance * static_cast<double>(value - static_cast<long double>(mean)));
}

void NumberSummary::add(const Tensor& tensor) {
  dispatch(DataTypes{}, tensor.dtype(), [&]<class T>() {
    for (const T& value : tensor.values<T>()) add(static_cast<long double>(static_cast<Compute<T>>(value)));
  });
}

double NumberSummary::deviation() const {
  return finite_ == 0 ? 0 : std::sqrt(squares_ / static_cast<double>(finite_));
}

void StringSummary::add(std::string_view text) {
  ++count;
  bytes += text.size();
  if (text.empty()) ++empty;
  shortest = std::min(shortest, text.size());
  longest = std::max(longest, text.size());
  const std::uint64_t hash = hash_of(text);
  constexpr int kIndexBits = 14;
  const auto rank = static_cast<std::uint8_t>(std::countl_zero(hash << kIndexBits | 1u << (kIndexBits - 1)) + 1);
  std::uint8_t& most = registers_[hash >> (64 - kIndexBits)];
  most = std::max(most, rank);
  if (text.size() > kLongestKept) {
    exact_ = false;
    return;
  }
  std::string key(text);
  if (const auto found = counts_.find(key); found != counts_.end()) {
    ++found->second;
    return;
  }
  if (counts_.size() >= kMostKept || kept_bytes_ + key.size() > kMostKeptBytes) {
    make_room();
    return;
  }
  kept_bytes_ += key.size();
  counts_.emplace(std::move(key), 1);
}

// The new string and one of each that is kept cancel each other.
void StringSummary::make_room() {
  exact_ = false;
  for (auto at = counts_.begin(); at != counts_.end();) {
    if (--at->second > 0) {
      ++at;
      continue;
    }
    kept_bytes_ -= at->first.size();
    at = counts_.erase(at);
  }
}

std::uint64_t StringSummary::distinct() const {
  if (exact_) return counts_.size();
  const auto size = static_cast<double>(registers_.size());
  double sum = 0;
  std::size_t unused = 0;
  for (const std::uint8_t rank : registers_) {
    sum += std::ldexp(1.0, -rank);
    unused += rank == 0 ? 1 : 0;
  }
  const double estimate = 0.7213 / (1 + 1.079 / size) * size * size / sum;
  if (estimate <= 2.5 * size && unused > 0)
    return static_cast<std::uint64_t>(std::llround(size * std::log(size / static_cast<double>(unused))));
  return static_cast<std::uint64_t>(std::llround(estimate));
}

std::vector<std::pair<std::string, std::uint64_t>> StringSummary::most_frequent(std::size_t how_many) const {
  std::vector<std::pair<std::string, std::uint64_t>> all(counts_.begin(), counts_.end());
  const auto more = [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  };
  const std::size_t some = std::min(how_many, all.size());
  std::ranges::partial_sort(all, all.begin() + static_cast<std::ptrdiff_t>(some), more);
  all.resize(some);
  return all;
}

}  // namespace troupe::data_tool
