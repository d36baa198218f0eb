// The set of batches that a shard has applied, stored as intervals. Batches are handed out in ascending order and
// nearly all come back, so the intervals are few: one, plus one per batch still being computed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace troupe {

class BatchSet {
 public:
  bool contains(std::uint64_t batch) const;
  // Adds `batch` (below 2^64 - 1). Returns false if it is already a member.
  bool insert(std::uint64_t batch);
  // Whether `batch` is adjacent to a member, so that inserting it adds no interval.
  bool touches(std::uint64_t batch) const;
  // "0-5 7-7"; parse() throws data_loss for other text.
  std::string to_string() const;
  static BatchSet parse(std::string_view text);
  // Number of members equal to `rest` modulo `divisor`, at least 1.
  std::uint64_t count(std::uint64_t rest, std::uint64_t divisor) const;
  // Number of intervals, a measure of the memory used.
  std::size_t intervals() const { return ends_.size(); }

 private:
  std::map<std::uint64_t, std::uint64_t> ends_;  // begin -> end, disjoint, not touching each other
};

}  // namespace troupe
