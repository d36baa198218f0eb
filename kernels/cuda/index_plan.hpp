// How the threads of an elementwise kernel locate elements of operands broadcast to one shape. Dimensions are merged
// into as few as possible; a thread works on items of `width` neighbours along the innermost one, which are loaded and
// stored at once. Plain data, for host and device; the CPU's twin is kernels/cpu/broadcast.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include <troupe/kernels/cuda/fast_divide.hpp>

namespace troupe {

inline constexpr int kMaxPlanDims = 8;  // the maximum rank of a shape

template <int kOperands, int kDims = kMaxPlanDims>
struct IndexPlan {
  int rank = 1;
  int width = 1;      // elements per item
  bool wide = false;  // too many items for 32-bit indexes
  std::int64_t items = 0;
  int rest = 0;  // elements after the items, fewer than `width`; only for rank 1
  // Dimension 0 is the innermost. Sizes in items.
  std::int64_t sizes[kDims] = {};
  FastDivider dividers[kDims] = {};
  // Strides from one item to the next along the dimension, in elements; 0 where the operand is broadcast.
  std::int64_t strides[kOperands][kDims] = {};
  // True if the operand has one element per element of the item; false if it has one for the whole item.
  bool moves[kOperands] = {};
};

inline bool is_multiple(const void* data, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(data) % bytes == 0;
}

// Counts a plan's items from its sizes and prepares the dividers.
template <int kOperands, int kDims>
void count_items(IndexPlan<kOperands, kDims>& plan) {
  plan.items = 1;
  for (int d = 0; d < plan.rank; ++d) plan.items *= plan.sizes[d];
  plan.wide = plan.items >= std::int64_t{1} << 31;
  for (int d = 0; d < plan.rank; ++d)
    plan.dividers[d] =
        !plan.wide && plan.sizes[d] > 0 ? make_divider(static_cast<std::uint32_t>(plan.sizes[d])) : FastDivider{};
}

// Launch dimensions. A block works on `threads` * `unroll` items.
struct LaunchGrid {
  unsigned blocks = 1;
  unsigned threads = 1;
};

// Grid for kernels whose threads work on `unroll` items each. With few items the blocks are small, so that more
// multiprocessors take part.
constexpr LaunchGrid grid_for(std::int64_t items, int unroll, int most_threads = 256) {
  constexpr std::int64_t kEnoughBlocks = 264;  // two per multiprocessor of an H200
  std::int64_t threads = most_threads;
  while (threads > 64 && items < threads * unroll * kEnoughBlocks) threads /= 2;
  const std::int64_t tile = threads * unroll;
  const std::int64_t blocks = items > 0 ? (items - 1) / tile + 1 : 1;
  return {static_cast<unsigned>(blocks), static_cast<unsigned>(threads)};
}

}  // namespace troupe
