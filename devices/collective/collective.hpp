// Collectives: operations of the ranks of a group on tensors of one dtype and shape, and how tensors are cut.
//
// The result of an all-reduce depends only on the tensors, their order by rank and the number of ranks: not on timing,
// on the cut into pieces, or on whether parts went around the ring or directly to every rank. A tensor of n elements is
// cut into one part per rank; part p is summed starting at rank p, around the ring:
//
//   ((g_p + g_{p+1}) + g_{p+2}) + ...
//
// with one rounding to the dtype per addition (f16 and bf16 are added in f32). The mean divides once, by N, in the last
// addition: f16 and bf16 are rounded after both. Integers wrap; their mean truncates. A maximum is NaN if any element
// is.
#pragma once

#include <cstdint>
#include <string>

#include <troupe/messages/dtype.hpp>
#include <troupe/messages/error.hpp>
#include <troupe/messages/shape.hpp>

namespace troupe {

enum class CollectiveKind : std::uint8_t { all_reduce, broadcast, all_gather, barrier };
enum class Reduction : std::uint8_t { sum, mean, max };
std::string_view name(CollectiveKind kind);
std::string_view name(Reduction reduction);
// Throws invalid_argument naming the three reductions.
Reduction parse_reduction(std::string_view text);

// One operation; all ranks must describe it alike.
struct CollectiveSpec {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Reduction reduction = Reduction::sum;  // all_reduce only
  std::uint32_t root = 0;                // broadcast: the rank that sends its tensor
  DType dtype = DType::invalid;          // barrier: none
  Shape shape{};
  std::string name{};

  // "all_reduce mean of f32[10,3] 'gradients_0'". Ranks with different texts are not running the same operation.
  std::string describe() const;
  std::int64_t elements() const { return kind == CollectiveKind::barrier ? 0 : shape.num_elements(); }
  // Throws invalid_argument for a dtype that cannot be reduced (f16 bf16 f32 f64 i32 i64 can) or moved (strings
  // cannot), a shape that is not fully known, or an invalid root.
  void check(std::uint32_t ranks) const;
};

// An operation's position in the work of a group. Operations of a channel run in order and are numbered from 0;
// channels do not wait for each other.
struct CollectivePosition {
  std::uint32_t channel = 0;
  std::uint64_t sequence = 0;
  auto operator<=>(const CollectivePosition&) const = default;
};

// All-reduces of up to this many bytes go directly from every rank to every rank: one hop instead of 2 (N - 1).
inline constexpr std::size_t kDirectBytes = 16 << 10;

// A range of elements.
struct ElementRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
};

// A flat tensor cut into parts, and those into pieces that are sent separately: one is summed while the next arrives.
class CollectiveCut {
 public:
  // Cuts into `parts` parts of equal size, in whole cache lines, except the last ones.
  CollectiveCut(std::int64_t elements, std::size_t element_bytes, std::uint32_t parts);

  ElementRange part(std::uint32_t part) const;
  std::uint32_t pieces(std::uint32_t part) const;  // 0 for an empty part
  ElementRange piece(std::uint32_t part, std::uint32_t piece) const;

  static constexpr std::size_t kPieceBytes = 256 << 10;

 private:
  std::int64_t elements_;
  std::int64_t per_part_;
  std::int64_t per_piece_;
};

}  // namespace troupe
