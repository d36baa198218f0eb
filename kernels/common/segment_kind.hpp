// Reductions of segments, for all device types.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include <troupe/kernels/common/scatter_combine.hpp>
#include <troupe/messages/element_types.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

enum class SegmentKind : std::uint8_t { sum, mean, max, min, prod };

inline SegmentKind segment_kind(std::string_view reduction) {
  if (reduction == "sum") return SegmentKind::sum;
  if (reduction == "mean") return SegmentKind::mean;
  if (reduction == "max") return SegmentKind::max;
  if (reduction == "min") return SegmentKind::min;
  if (reduction == "prod") return SegmentKind::prod;
  invalid_argument("attribute 'reduction' is '{}', not sum, mean, max, min or prod", reduction);
}

// What a segment without rows has: of an extremum the limit of the dtype, or 0 where ids are sorted.
template <class T>
T start_of(SegmentKind kind) {
  using L = std::numeric_limits<Compute<T>>;
  switch (kind) {
    case SegmentKind::max:
      return static_cast<T>(L::lowest());
    case SegmentKind::min:
      return static_cast<T>(L::max());
    default:
      return static_cast<T>(static_cast<Compute<T>>(kind == SegmentKind::prod));
  }
}

inline ScatterCombine combine_of(SegmentKind kind) {
  switch (kind) {
    case SegmentKind::max:
      return ScatterCombine::max;
    case SegmentKind::min:
      return ScatterCombine::min;
    case SegmentKind::prod:
      return ScatterCombine::mul;
    default:
      return ScatterCombine::add;
  }
}

// The number of segments, in host memory. Throws invalid_argument for shapes that do not fit.
inline std::int64_t checked_segments(const Shape& x, const Shape& ids, const Tensor& count, bool sorted) {
  const int rank = ids.rank();
  if (rank > x.rank() || x.sub(0, rank) != ids || (sorted && rank != 1))
    invalid_argument("SegmentReduce: ids {} do not fit x {}", ids.to_string(), x.to_string());
  if (count.num_elements() != 1)
    invalid_argument("SegmentReduce: the number of segments is {}, not a scalar", count.shape().to_string());
  const std::int64_t segments = count.item<std::int64_t>();
  if (segments < 0) invalid_argument("SegmentReduce: {} segments", segments);
  return segments;
}

}  // namespace troupe
