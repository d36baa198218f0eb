#include "troupe/devices/collective/collective.hpp"

#include <algorithm>
#include <array>

#include <troupe/devices/collective/reduce.hpp>

namespace troupe {
namespace {

constexpr std::array<std::string_view, 4> kKinds = {"all_reduce", "broadcast", "all_gather", "barrier"};
constexpr std::array<std::string_view, 3> kReductions = {"sum", "mean", "max"};
constexpr std::int64_t kLine = 64;  // bytes

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

std::string_view name(CollectiveKind kind) { return kKinds[static_cast<std::size_t>(kind)]; }
std::string_view name(Reduction reduction) { return kReductions[static_cast<std::size_t>(reduction)]; }

Reduction parse_reduction(std::string_view text) {
  for (std::size_t i = 0; i < kReductions.size(); ++i)
    if (kReductions[i] == text) return static_cast<Reduction>(i);
  invalid_argument("unknown reduction '{}': use sum, mean or max", text);
}

std::string CollectiveSpec::describe() const {
  std::string what(troupe::name(kind));
  if (kind == CollectiveKind::all_reduce) what += fmt::format(" {}", troupe::name(reduction));
  if (kind != CollectiveKind::barrier) what += fmt::format(" of {}{}", troupe::name(dtype), shape.to_string());
  if (kind == CollectiveKind::broadcast) what += fmt::format(" from rank {}", root);
  return fmt::format("{} '{}'", what, name);
}

void CollectiveSpec::check(std::uint32_t ranks) const {
  if (kind == CollectiveKind::barrier) return;
  if (!shape.fully_known()) invalid_argument("{}: the shape must be fully known", describe());
  if (kind == CollectiveKind::all_reduce && !can_reduce(dtype))
    invalid_argument("{}: cannot reduce tensors of {}: use f16, bf16, f32, f64, i32 or i64", describe(),
                     troupe::name(dtype));
  if (dtype == DType::invalid || dtype == DType::string || dtype == DType::resource)
    invalid_argument("{}: collectives cannot transfer tensors of {}", describe(), troupe::name(dtype));
  if (kind == CollectiveKind::broadcast && root >= ranks)
    invalid_argument("{}: the group has {} ranks", describe(), ranks);
}

CollectiveCut::CollectiveCut(std::int64_t elements, std::size_t element_bytes, std::uint32_t parts)
    : elements_(elements) {
  const std::int64_t line =
      std::max<std::int64_t>(1, kLine / static_cast<std::int64_t>(std::max<std::size_t>(element_bytes, 1)));
  per_part_ = std::max<std::int64_t>(1, divided_up(divided_up(elements, parts), line)) * line;
  per_piece_ = static_cast<std::int64_t>(kPieceBytes / std::max<std::size_t>(element_bytes, 1));
}

ElementRange CollectiveCut::part(std::uint32_t part) const {
  const std::int64_t begin = std::min(elements_, per_part_ * part);
  return {begin, std::min(elements_, begin + per_part_)};
}

std::uint32_t CollectiveCut::pieces(std::uint32_t part) const {
  return static_cast<std::uint32_t>(divided_up(this->part(part).size(), per_piece_));
}

ElementRange CollectiveCut::piece(std::uint32_t part, std::uint32_t piece) const {
  const ElementRange whole = this->part(part);
  const std::int64_t begin = whole.begin + per_piece_ * piece;
  return {begin, std::min(whole.end, begin + per_piece_)};
}

}  // namespace troupe
