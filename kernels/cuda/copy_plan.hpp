// How a GPU performs a strided copy (kernels/common/movement.hpp): neighbours move together, up to 16 bytes at once,
// and transposes go through tiles so that adjacent threads read and write adjacent elements. Plain data, for host and
// device.
#pragma once

#include <cstddef>
#include <cstdint>

#include <troupe/kernels/cuda/index_plan.hpp>

namespace troupe {

inline constexpr int kMaxCopyPlanDims = 2 * kMaxPlanDims;

enum class CopyKind : std::uint8_t {
  whole,  // contiguous bytes
  items,  // one element per item
  same,   // each item repeats one element
  tiles,
};

struct CopyPlan {
  CopyKind kind = CopyKind::items;
  int element_bytes = 1;  // element size after merging neighbours: 1, 2, 4, 8, or for `items` 16
  // Operand 0 is the source, 1 the target. For tiles: all dimensions but two; items are the origins of the tiles.
  IndexPlan<2, kMaxCopyPlanDims> plan;
  // Tiles only: rows are contiguous in the source, columns in the target. Strides in elements.
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t source_column = 0;  // stride from one column to the next
  std::int64_t target_row = 0;
};

// Elements per side of a tile.
constexpr int tile_side(int element_bytes) { return element_bytes <= 2 ? 64 : 32; }

struct CopyLoops;

// `source` and `target` point to the first elements to copy.
CopyPlan plan_copy(const CopyLoops& loops, std::size_t element_bytes, const void* source, const void* target);

}  // namespace troupe
