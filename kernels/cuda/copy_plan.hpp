// How a strided copy (kernels/common/movement.hpp) is made by a GPU: neighbours are moved together, up to 16 bytes at
// once, and what is transposed goes by way of tiles, so that threads which run together read and write neighbours.
// Plain data, for both sides.
#pragma once

#include <cstddef>
#include <cstdint>

#include <troupe/kernels/cuda/index_plan.hpp>

namespace troupe {

inline constexpr int kMaxCopyPlanDims = 2 * kMaxPlanDims;

enum class CopyKind : std::uint8_t {
  whole,  // bytes without gaps
  items,  // an element for each item
  same,   // the same element for all of an item
  tiles,
};

struct CopyPlan {
  CopyKind kind = CopyKind::items;
  int element_bytes = 1;  // of what is moved as one: 1, 2, 4, 8, or of `items` 16
  // Operand 0 is the source, 1 the target. Of tiles: the dimensions but two, items are those tiles' beginnings.
  IndexPlan<2, kMaxCopyPlanDims> plan;
  // Of tiles: rows are neighbours in the source, columns in the target. In elements.
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t source_column = 0;  // from one column to the next
  std::int64_t target_row = 0;
};

// Elements along the sides of a tile.
constexpr int tile_side(int element_bytes) { return element_bytes <= 2 ? 64 : 32; }

struct CopyLoops;

// `source` and `target`: the first elements that are copied.
CopyPlan plan_copy(const CopyLoops& loops, std::size_t element_bytes, const void* source, const void* target);

}  // namespace troupe
