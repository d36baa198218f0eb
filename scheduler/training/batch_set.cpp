#include "scheduler/training/batch_set.hpp"

#include <iterator>

namespace troupe {

bool BatchSet::contains(std::uint64_t batch) const {
  const auto after = ends_.upper_bound(batch);
  return after != ends_.begin() && batch < std::prev(after)->second;
}

bool BatchSet::touches(std::uint64_t batch) const {
  return ends_.contains(batch + 1) || (batch > 0 && contains(batch - 1));
}

bool BatchSet::insert(std::uint64_t batch) {
  if (contains(batch)) return false;
  const auto after = ends_.upper_bound(batch);
  const bool joins_next = after != ends_.end() && after->first == batch + 1;
  const std::uint64_t end = joins_next ? after->second : batch + 1;
  if (after != ends_.begin() && std::prev(after)->second == batch) {
    std::prev(after)->second = end;
  } else {
    ends_.emplace_hint(after, batch, end);
  }
  if (joins_next) ends_.erase(after);
  return true;
}

}  // namespace troupe
