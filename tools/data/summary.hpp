// Summaries of the values of a component, in bounded memory.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <troupe/messages/tensor.hpp>

namespace troupe::data_tool {

// Minimum and maximum of all values but NaN; mean and deviation of the finite ones, by Welford's method (Knuth, TAOCP
// 2, 4.2.2).
class NumberSummary {
 public:
  void add(const Tensor& tensor);

  std::uint64_t count = 0, zeros = 0, nans = 0, infinite = 0;
  // Exact for all integers.
  long double least = std::numeric_limits<long double>::infinity();
  long double greatest = -std::numeric_limits<long double>::infinity();
  double mean = 0;
  double deviation() const;  // of the population; 0 of no values

 private:
  void add(long double value);
  std::uint64_t finite_ = 0;
  double squares_ = 0;  // sum of squared distances from the mean
};

// How many different strings there are and which come most often. Up to kMostKept strings and kMostKeptBytes of them it
// is exact; beyond, the number is an estimate (HyperLogLog, Flajolet et al. 2007, 2^14 registers: about 1 % off) and
// counts are lower bounds (Misra and Gries 1982).
class StringSummary {
 public:
  void add(std::string_view text);

  std::uint64_t count = 0, bytes = 0, empty = 0;
  std::size_t shortest = std::numeric_limits<std::size_t>::max(), longest = 0;  // in bytes
  bool exact() const { return exact_; }
  std::uint64_t distinct() const;
  std::vector<std::pair<std::string, std::uint64_t>> most_frequent(std::size_t how_many) const;

  static constexpr std::size_t kMostKept = 20'000, kMostKeptBytes = std::size_t{16} << 20;
  static constexpr std::size_t kLongestKept = 1024;  // of a string: longer ones are no candidates

 private:
  void make_room();

  bool exact_ = true;
  std::size_t kept_bytes_ = 0;
  std::unordered_map<std::string, std::uint64_t> counts_;
  std::array<std::uint8_t, 1 << 14> registers_{};
};

}  // namespace troupe::data_tool
