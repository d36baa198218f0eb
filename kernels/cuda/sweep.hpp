// Many tensors in one launch: a table passed as a kernel argument, and the lookup of a block's tensor. For host and
// device code.
#pragma once

#include <array>
#include <cstdint>

namespace troupe {

inline constexpr int kSweepThreads = 256;
inline constexpr std::int64_t kSweepElements = 4096;                 // per block; each tensor starts a new block
inline constexpr std::int64_t kSweepBlocks = std::int64_t{1} << 30;  // capacity of a table

template <int kPointers>
struct SweepEntry {
  void* pointers[kPointers];  // each to `count` elements
  std::int64_t count;
  std::int64_t first_block;
};

// Kernel arguments are limited to 4 KiB; this leaves some for others.
template <int kPointers>
struct SweepTable {
  static constexpr int kEntries = 3840 / static_cast<int>(sizeof(SweepEntry<kPointers>));

  SweepEntry<kPointers> entries[kEntries];
  int size = 0;
  std::int64_t blocks = 0;

  // Returns false and adds nothing if the table is full. Skips tensors without elements.
  bool add(const std::array<void*, kPointers>& pointers, std::int64_t count) {
    const std::int64_t added = (count + kSweepElements - 1) / kSweepElements;
    if (added == 0) return true;
    if (size == kEntries || (size > 0 && blocks + added > kSweepBlocks)) return false;
    SweepEntry<kPointers>& entry = entries[size++];
    for (int i = 0; i < kPointers; ++i) entry.pointers[i] = pointers[static_cast<std::size_t>(i)];
    entry.count = count;
    entry.first_block = blocks;
    blocks += added;
    return true;
  }

  // Index of the tensor of a block.
  constexpr int entry_of(std::int64_t block) const {
    int low = 0, high = size;  // entries[low].first_block <= block < entries[high].first_block
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (entries[middle].first_block <= block ? low : high) = middle;
    }
    return low;
  }
};

}  // namespace troupe
