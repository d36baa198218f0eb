// The mean of sparse gradients over the slots of a step: what a row is divided by.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace troupe {

enum class SparseMean : std::uint8_t {
  all_slots,       // the number of slots: a row is nothing in those that do not have it
  touching_slots,  // of those that have it: rows that are seen seldom learn as fast as others
};

std::string_view name(SparseMean mean);  // "all_slots", "touching_slots"

// For each row number, slot after slot: in how many slots it is. A slot that has it more than once counts once.
std::vector<std::int64_t> slots_touching(std::span<const std::span<const std::int64_t>> rows_of_slots);

}  // namespace troupe
