// Collectives: what the ranks of a group do together to tensors of one dtype and shape, and how those are cut.
//
// The result of an all-reduce depends on the tensors, their order by rank and the number of ranks alone: not on who was
// faster, on the cut into pieces, or on whether parts went around the ring or straight to everyone. A tensor of n
// elements is cut into as many parts as there are ranks; part p is summed from rank p on, around the ring:
//
//   ((g_p + g_{p+1}) + g_{p+2}) + ...
//
// one rounding to the dtype for each addition (f16 and bf16 are added in f32). The mean divides once, by N, in the last
// addition: f16 and bf16 are rounded after both. Integers wrap; their mean truncates. A maximum is NaN if any is.
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
// Throws invalid_argument naming the three.
Reduction parse_reduction(std::string_view text);

// One operation, as every rank must describe it.
struct CollectiveSpec {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Reduction reduction = Reduction::sum;  // all_reduce
  std::uint32_t root = 0;                // broadcast: the rank whose tensor everyone gets
  DType dtype = DType::invalid;          // barrier: none
  Shape shape{};
  std::string name{};

  // "all_reduce mean of f32[10,3] 'gradients_0'": ranks whose texts differ do not work on the same thing.
  std::string describe() const;
  std::int64_t elements() const { return kind == CollectiveKind::barrier ? 0 : shape.num_elements(); }
  // Throws invalid_argument for a dtype that cannot be reduced (f16 bf16 f32 f64 i32 i64 can) or moved (strings
  // cannot), a shape that is not fully known, a root that is no rank.
  void check(std::uint32_t ranks) const;
};

// Where in the work of a group an operation stands: the operations of a channel follow each other and are numbered from
// 0; those of different channels do not wait for each other.
struct CollectivePosition {
  std::uint32_t channel = 0;
  std::uint64_t sequence = 0;
  auto operator<=>(const CollectivePosition&) const = default;
};

// All-reduces of up to so many bytes go straight from everyone to everyone: one hop instead of 2 (N - 1).
inline constexpr std::size_t kDirectBytes = 16 << 10;

// A range of elements.
struct ElementRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
};

// A flat tensor, cut into parts, and those into pieces that travel on their own: while one is summed the next arrives.
class CollectiveCut {
 public:
  // `parts` parts of equal size, in whole cache lines, but for the last ones.
  CollectiveCut(std::int64_t elements, std::size_t element_bytes, std::uint32_t parts);

  ElementRange part(std::uint32_t part) const;
  std::uint32_t pieces(std::uint32_t part) const;  // none of a part that is empty
  ElementRange piece(std::uint32_t part, std::uint32_t piece) const;

  static constexpr std::size_t kPieceBytes = 256 << 10;

 private:
  std::int64_t elements_;
  std::int64_t per_part_;
  std::int64_t per_piece_;
};

}  // namespace troupe
