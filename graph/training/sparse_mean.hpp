// The mean of sparse gradients over the slots of a step: the divisor of each row.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace troupe {

enum class SparseMean : std::uint8_t {
  all_slots,       // the number of slots: a slot without the row contributes zero
  touching_slots,  // the number of slots that have it: rare rows learn as fast as others
};

std::string_view name(SparseMean mean);  // "all_slots", "touching_slots"

// For each row number, slot after slot: the number of slots that have it. A slot counts once even if the row is
// repeated.
std::vector<std::int64_t> slots_touching(std::span<const std::span<const std::int64_t>> rows_of_slots);

}  // namespace troupe
