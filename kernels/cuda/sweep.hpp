// Many tensors in one launch: a table of them as a kernel's argument, and which of them a block works on. For host and
// device code.
#pragma once

#include <array>
#include <cstdint>

namespace troupe {

inline constexpr int kSweepThreads = 256;
inline constexpr std::int64_t kSweepElements = 4096;  // of a block; a tensor begins with a block of its own
inline constexpr std::int64_t kSweepBlocks = std::int64_t{1} << 30;  // that a table has room for

template <int kPointers>
struct SweepEntry {
  void* pointers[kPointers];  // to as many elements each
  std::int64_t count;
  std::int64_t first_block;
};

// Arguments of a kernel are 4 KiB at most; some are left for others.
template <int kPointers>
struct SweepTable {
  static constexpr int kEntries = 3840 / static_cast<int>(sizeof(SweepEntry<kPointers>));

  SweepEntry<kPointers> entries[kEntries];
  int size = 0;
  std::int64_t blocks = 0;

  // False, and nothing is added, if there is no room. Tensors without elements need none.
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

  // Of the tensor that a block has.
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
