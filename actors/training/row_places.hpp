// The places of rows that are kept: row numbers by place, and places by row number. Takes 8 bytes a row and 8 to 16 for
// finding it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace troupe {

class RowPlaces {
 public:
  std::int64_t size() const { return static_cast<std::int64_t>(rows_.size()); }
  std::span<const std::int64_t> rows() const { return rows_; }  // by place
  // -1: none.
  std::int64_t find(std::int64_t row) const;
  // The row's place: the next one, if it has none yet.
  std::int64_t place(std::int64_t row);

 private:
  std::size_t bucket(std::int64_t row) const;
  void grow();

  std::vector<std::int64_t> rows_;
  std::vector<std::uint32_t> buckets_;  // place + 1, open addressing; 0: free. A power of two, at most half full
};

}  // namespace troupe
