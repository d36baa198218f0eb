#include "troupe/kernels/cpu/sparse_indices.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>

#include <troupe/kernels/common/tensor_checks.hpp>

namespace troupe {

Shape shape_in(std::string_view what, const Tensor& dims) {
  check_rank(what, dims.shape(), 1);
  const std::span<const std::int64_t> sizes = dims.values<std::int64_t>();
  for (const std::int64_t size : sizes)
    if (size < 0) invalid_argument("{} [{}] has a negative dimension", what, fmt::join(sizes, ","));
  return Shape(sizes);
}

SparseIndices::SparseIndices(std::string_view op, const Tensor& indices, const Tensor& dense_shape)
    : op_(op),
      places_(indices.data<std::int64_t>()),
      count_(indices.shape().rank() == 2 ? indices.shape()[0] : 0),
      shape_(shape_in(fmt::format("{}: dense_shape", op), dense_shape)) {
  if (indices.shape().rank() != 2 || indices.shape()[1] != shape_.rank())
    invalid_argument("{}: indices {} of a sparse tensor of shape {} must be [n,{}]", op, indices.shape().to_string(),
                     shape_.to_string(), shape_.rank());
}

std::string SparseIndices::text(std::int64_t element) const { return fmt::format("[{}]", fmt::join(at(element), ",")); }

void SparseIndices::throw_outside(std::int64_t element) const {
  invalid_argument("{}: element {} of the sparse tensor is at {}, outside of its shape {}", op_, element, text(element),
                   shape_.to_string());
}

bool SparseIndices::is_inside(std::int64_t element) const {
  const std::int64_t* own = places_ + element * rank();
  for (int d = 0; d < rank(); ++d)
    if (static_cast<std::uint64_t>(own[d]) >= static_cast<std::uint64_t>(shape_[d])) return false;
  return true;
}

std::vector<std::int64_t> SparseIndices::places() const {
  std::array<int, kMaxRank> axes{};
  std::iota(axes.begin(), axes.end(), 0);
  return places({axes.data(), static_cast<std::size_t>(rank())});
}

std::vector<std::int64_t> SparseIndices::places(std::span<const int> axes) const {
  Shape kept;
  for (const int axis : axes) kept = kept.with_appended(shape_[axis]);
  (void)kept.num_elements();  // throws if it overflows
  std::vector<std::int64_t> out(static_cast<std::size_t>(count_));
  for (std::int64_t i = 0; i < count_; ++i) {
    if (!is_inside(i)) throw_outside(i);
    const std::int64_t* own = places_ + i * rank();
    std::int64_t place = 0;
    for (const int axis : axes) place = place * shape_[axis] + own[axis];
    out[static_cast<std::size_t>(i)] = place;
  }
  return out;
}

void SparseIndices::check_order(std::span<const std::int64_t> places) const {
  const auto found = std::ranges::adjacent_find(places, std::ranges::greater_equal());
  if (found == places.end()) return;
  const std::int64_t i = found - places.begin();
  if (found[0] == found[1])
    invalid_argument("{}: elements {} and {} of the sparse tensor are both at {}: add them up by coalesce()", op_, i,
                     i + 1, text(i));
  invalid_argument("{}: element {} of the sparse tensor, at {}, comes after one at {}: sort them by reorder()", op_,
                   i + 1, text(i + 1), text(i));
}

}  // namespace troupe
