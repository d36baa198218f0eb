// How an elementwise loop traverses operands broadcast to one shape: dimensions are merged into as few as possible, so
// that the innermost is long and each operand's stride along it is 0 or 1.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include <troupe/messages/shape.hpp>

namespace troupe {

inline constexpr std::size_t kMaxOperands = 3;

struct BroadcastPlan {
  int rank = 0;  // >= 1
  std::array<std::int64_t, kMaxRank> dims{};
  // Per operand, in elements; 0 where it is broadcast.
  std::array<std::array<std::int64_t, kMaxRank>, kMaxOperands> strides{};

  std::int64_t inner() const { return dims[static_cast<std::size_t>(rank - 1)]; }
  bool inner_contiguous(std::size_t operand) const { return strides[operand][static_cast<std::size_t>(rank - 1)] == 1; }
};

// Plan for operands of these shapes, broadcast to `out`. Throws invalid_argument if one does not broadcast.
BroadcastPlan plan_broadcast(const Shape& out, std::span<const Shape> operands);

// The shape that all operands broadcast to. Throws invalid_argument.
Shape broadcast_all(std::span<const Shape> operands);

// Calls fn(out_offset, offsets, count) for each run along the innermost dimension within [begin, end).
template <class Fn>
void for_each_stretch(const BroadcastPlan& plan, std::int64_t begin, std::int64_t end, Fn&& fn) {
  const std::int64_t inner = plan.inner();
  const auto last = static_cast<std::size_t>(plan.rank - 1);
  while (begin < end) {
    std::int64_t row = begin / inner;
    const std::int64_t column = begin % inner;
    std::array<std::int64_t, kMaxOperands> offsets;
    for (std::size_t o = 0; o < kMaxOperands; ++o) offsets[o] = column * plan.strides[o][last];
    for (std::size_t d = last; d-- > 0;) {
      const std::int64_t index = row % plan.dims[d];
      row /= plan.dims[d];
      for (std::size_t o = 0; o < kMaxOperands; ++o) offsets[o] += index * plan.strides[o][d];
    }
    const std::int64_t count = std::min(inner - column, end - begin);
    fn(begin, offsets, count);
    begin += count;
  }
}

}  // namespace troupe
