// Which batches a shard has already applied. Batches are handed out in ascending order and nearly all come
// back, so the set is a few intervals: one, and one more for each batch still being computed.
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
  // Adds `batch`, below 2^64 - 1; false if it was there.
  bool insert(std::uint64_t batch);
  // Is `batch` next to a member, so that inserting it makes no new interval?
  bool touches(std::uint64_t batch) const;
  // "0-5 7-7"; parse() throws data_loss for other text.
  std::string to_string() const;
  static BatchSet parse(std::string_view text);
  // Of what is remembered: its memory.
  std::size_t intervals() const { return ends_.size(); }

 private:
  std::map<std::uint64_t, std::uint64_t> ends_;  // begin -> end, disjoint, not touching each other
};

}  // namespace troupe
