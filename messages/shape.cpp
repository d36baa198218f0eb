#include "troupe/messages/shape.hpp"

#include <algorithm>

#include <troupe/messages/error.hpp>

namespace troupe {

Shape::Shape(std::span<const std::int64_t> dims) {
  if (dims.size() > kMaxRank) invalid_argument("a shape has at most {} dimensions, not {}", kMaxRank, dims.size());
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < kUnknown) invalid_argument("dimension {} of a shape is {}; it must not be negative", i, dims[i]);
    dims_[i] = dims[i];
  }
  rank_ = static_cast<int>(dims.size());
}

Shape Shape::unknown_rank() {
  Shape shape;
  shape.rank_ = -1;
  return shape;
}

Shape Shape::unknown(int rank) {
  if (rank < 0 || rank > kMaxRank) invalid_argument("a shape has 0 to {} dimensions, not {}", kMaxRank, rank);
  Shape shape;
  shape.rank_ = rank;
  for (int i = 0; i < rank; ++i) shape.set_dim(i, kUnknown);
  return shape;
}

bool Shape::fully_known() const {
  if (rank_ < 0) return false;
  return std::ranges::none_of(dims(), [](std::int64_t d) { return d == kUnknown; });
}

std::int64_t Shape::product() const {
  if (!fully_known()) invalid_argument("the number of elements of {} is unknown", to_string());
  std::int64_t count = 1;
  bool overflow = false;
  bool empty = false;
  for (std::int64_t d : dims()) {
    if (d == 0) empty = true;
    if (__builtin_mul_overflow(count, d == 0 ? 1 : d, &count)) overflow = true;
  }
  // An empty tensor with absurd dimensions is rejected as well: strides are products of these.
  if (overflow) invalid_argument("the number of elements of {} overflows 63 bits", to_string());
  return empty ? 0 : count;
}

Shape Shape::with_appended(std::int64_t dim) const { return concatenated(Shape{dim}); }

Shape Shape::without(int axis) const {
  if (axis < 0) axis += rank_;
  return sub(0, axis).concatenated(sub(axis + 1, rank_));
}

Shape Shape::sub(int begin, int end) const {
  return Shape(dims().subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
}

Shape Shape::concatenated(const Shape& tail) const {
  if (rank_ < 0 || tail.rank_ < 0) return unknown_rank();
  if (rank_ + tail.rank_ > kMaxRank)
    invalid_argument("a shape has at most {} dimensions, not {}", kMaxRank, rank_ + tail.rank_);
  Shape out = *this;
  for (std::int64_t d : tail.dims()) out.dims_[static_cast<std::size_t>(out.rank_++)] = d;
  return out;
}

bool Shape::compatible_with(const Shape& other) const { return merged(other).has_value(); }

std::optional<Shape> Shape::merged(const Shape& other) const {
  if (rank_ < 0) return other;
  if (other.rank_ < 0) return *this;
  if (rank_ != other.rank_) return std::nullopt;
  Shape out = *this;
  for (int i = 0; i < rank_; ++i) {
    if (dim(i) == kUnknown)
      out.set_dim(i, other.dim(i));
    else if (other.dim(i) != kUnknown && other.dim(i) != dim(i))
      return std::nullopt;
  }
  return out;
}

std::string Shape::to_string() const {
  if (rank_ < 0) return "[?...]";
  std::string text = "[";
  for (std::int64_t d : dims()) {
    if (text.size() > 1) text += ',';
    text += d == kUnknown ? "?" : std::to_string(d);
  }
  return text + "]";
}

Shape broadcast(const Shape& a, const Shape& b) {
  if (!a.has_rank() || !b.has_rank()) return Shape::unknown_rank();
  const int rank = std::max(a.rank(), b.rank());
  Shape out = Shape::unknown(rank);
  for (int i = 1; i <= rank; ++i) {
    const std::int64_t x = i <= a.rank() ? a.dim(-i) : 1;
    const std::int64_t y = i <= b.rank() ? b.dim(-i) : 1;
    if (x == y || y == 1)
      out.set_dim(-i, x);
    else if (x == 1)
      out.set_dim(-i, y);
    else if (x == kUnknown || y == kUnknown)
      out.set_dim(-i, std::max(x, y));  // the known dimension is above 1: the other must be 1 or equal
    else
      invalid_argument("shapes {} and {} cannot be broadcast together", a.to_string(), b.to_string());
  }
  return out;
}

}  // namespace troupe
