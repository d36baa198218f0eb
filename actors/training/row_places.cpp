#include "troupe/actors/training/row_places.hpp"

#include <limits>

#include <troupe/messages/error.hpp>
#include <troupe/messages/philox.hpp>

namespace troupe {

// The row's bucket, or the free one where it belongs.
std::size_t RowPlaces::bucket(std::int64_t row) const {
  const std::size_t mask = buckets_.size() - 1;
  for (std::size_t at = mix64(static_cast<std::uint64_t>(row)) & mask;; at = (at + 1) & mask)
    if (buckets_[at] == 0 || rows_[buckets_[at] - 1] == row) return at;
}

std::int64_t RowPlaces::find(std::int64_t row) const {
  return buckets_.empty() ? -1 : static_cast<std::int64_t>(buckets_[bucket(row)]) - 1;
}

std::int64_t RowPlaces::place(std::int64_t row) {
  if (2 * (rows_.size() + 1) > buckets_.size()) grow();
  std::uint32_t& place = buckets_[bucket(row)];
  if (place == 0) {
    rows_.push_back(row);
    place = static_cast<std::uint32_t>(rows_.size());
  }
  return static_cast<std::int64_t>(place) - 1;
}

void RowPlaces::grow() {
  if (rows_.size() >= std::numeric_limits<std::uint32_t>::max() / 2)
    fail(Code::resource_exhausted, "{} rows of one slice have been updated, no more are supported: use more shards",
         rows_.size());
  buckets_.assign(buckets_.empty() ? 1024 : 2 * buckets_.size(), 0);
  for (std::size_t place = 0; place < rows_.size(); ++place)
    buckets_[bucket(rows_[place])] = static_cast<std::uint32_t>(place + 1);
}

}  // namespace troupe
