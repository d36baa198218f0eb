#include "troupe/graph/training/sparse_mean.hpp"

#include <unordered_map>

namespace troupe {

std::string_view name(SparseMean mean) { return mean == SparseMean::all_slots ? "all_slots" : "touching_slots"; }

std::vector<std::int64_t> slots_touching(std::span<const std::span<const std::int64_t>> rows_of_slots) {
  struct Seen {
    std::size_t last = 0;  // the slot, from 1
    std::int64_t slots = 0;
  };
  std::unordered_map<std::int64_t, Seen> rows;
  for (std::size_t slot = 0; slot < rows_of_slots.size(); ++slot)
    for (const std::int64_t row : rows_of_slots[slot]) {
      Seen& seen = rows[row];
      if (seen.last == slot + 1) continue;
      seen.last = slot + 1;
      ++seen.slots;
    }
  std::vector<std::int64_t> out;
  for (const auto slot : rows_of_slots)
    for (const std::int64_t row : slot) out.push_back(rows.at(row).slots);
  return out;
}

}  // namespace troupe
