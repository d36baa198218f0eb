#include "troupe/kernels/cpu/index_plans.hpp"

#include <algorithm>
#include <limits>
#include <type_traits>

#include <troupe/kernels/common/movement.hpp>
#include <troupe/kernels/cpu/ivdep.hpp>

namespace troupe {

namespace {

template <class I>
void gathered_runs(const GatherGeometry& g, const I* indices, std::int64_t stride, std::int64_t begin, std::int64_t end,
                   GatherRun fn) {
  std::int64_t offsets[kIndexBlock];
  // Those of one slice serve the next slices of its batch too.
  std::int64_t known_first = -1, known = 0;
  while (begin < end) {
    const std::int64_t slice = begin / g.count, at = begin % g.count;
    const std::int64_t n = std::min({g.count - at, end - begin, kIndexBlock});
    const std::int64_t first = slice / g.outer * g.count + at;
    if (first != known_first || n > known) {
      std::fill_n(offsets, n, 0);
      if (!add_offsets(indices + first, 1, n, g.rows, stride, offsets, g.from_end))
        throw_first_bad("Gather", indices + first, 1, n, g.rows, first, g.from_end);
      known_first = first;
      known = n;
    }
    fn(slice, begin, offsets, n);
    begin += n;
  }
}

// Offsets of `count` vectors of `depth` indices: strides . indices. Returns whether all are inside; offsets of others
// are meaningless. With the depth known, the loop is vectorised.
template <int depth, class I, class Offset>
[[gnu::noinline]] bool vector_offsets(const I* indices, std::int64_t count, const std::int64_t* sizes,
                                      const std::int64_t* strides, Offset* offsets) {
  using Word = std::make_unsigned_t<I>;  // wraps
  I size[depth];
  std::make_unsigned_t<Offset> stride[depth];
  for (int d = 0; d < depth; ++d) {
    size[d] = static_cast<I>(sizes[d]);
    stride[d] = static_cast<std::make_unsigned_t<Offset>>(strides[d]);
  }
  Word outside = 0;
  TROUPE_IVDEP
  for (std::int64_t i = 0; i < count; ++i) {
    std::make_unsigned_t<Offset> offset = 0;
    for (int d = 0; d < depth; ++d) {
      I index = indices[i * depth + d];
      index += index < 0 ? size[d] : 0;
      outside |= static_cast<Word>(index >= size[d]) | static_cast<Word>(index < 0);
      offset += static_cast<std::make_unsigned_t<Offset>>(index) * stride[d];
    }
    offsets[i] = static_cast<Offset>(offset);
  }
  return outside == 0;
}

}  // namespace

void for_each_gathered(const GatherGeometry& geometry, const Tensor& indices, std::int64_t stride, std::int64_t begin,
                       std::int64_t end, GatherRun fn) {
  dispatch(IndexTypes{}, indices.dtype(),
           [&]<class I>() { gathered_runs(geometry, indices.data<I>(), stride, begin, end, fn); });
}

void check_gathered(const GatherGeometry& g, const Tensor& indices) {
  dispatch(IndexTypes{}, indices.dtype(), [&]<class I>() {
    const I* index = indices.data<I>();
    for (std::int64_t i = 0; i < indices.num_elements(); ++i)
      if (index[i] >= g.rows || index[i] < (g.from_end ? -g.rows : 0))
        throw_bad_index("Gather", index[i], i, g.rows, g.from_end);
  });
}

bool SlicePlan::fits_32_bits(std::int64_t unit) const {
  return batches * batch_stride * unit <= std::numeric_limits<std::int32_t>::max();
}

template <class Offset>
void SlicePlan::for_each_run(const Tensor& indices, std::int64_t unit, std::int64_t begin, std::int64_t end,
                             Run<Offset> fn) const {
  std::array<std::int64_t, kMaxRank> steps{};
  for (std::size_t d = 0; d < kMaxRank; ++d) steps[d] = strides[d] * unit;
  dispatch(IndexTypes{}, indices.dtype(), [&]<class I>() {
    const bool sizes_fit = std::ranges::all_of(sizes, [](auto size) { return size == static_cast<I>(size); });
    const int together = batches == 1 && sizes_fit ? depth : 0;
    for (; begin < end; begin += kIndexBlock) {
      const std::int64_t n = std::min(kIndexBlock, end - begin);
      const I* index = indices.data<I>() + begin * depth;
      Offset offsets[kIndexBlock];
      if (!(together == 2 && vector_offsets<2>(index, n, sizes.data(), steps.data(), offsets)) &&
          !(together == 3 && vector_offsets<3>(index, n, sizes.data(), steps.data(), offsets))) {
        std::int64_t wide[kIndexBlock];
        for (std::int64_t i = 0; i < n; ++i) wide[i] = batches == 1 ? 0 : (begin + i) / per_batch * batch_stride * unit;
        for (int d = 0; d < depth; ++d) {
          const auto at = static_cast<std::size_t>(d);
          if (!add_offsets(index + d, depth, n, sizes[at], steps[at], wide))
            throw_first_bad(op_, index + d, depth, n, sizes[at], begin * depth + d);
        }
        std::copy_n(wide, n, offsets);
      }
      fn(begin, offsets, n);
    }
  });
}

template void SlicePlan::for_each_run(const Tensor&, std::int64_t, std::int64_t, std::int64_t, Run<std::int32_t>) const;
template void SlicePlan::for_each_run(const Tensor&, std::int64_t, std::int64_t, std::int64_t, Run<std::int64_t>) const;

ElementPlan::ElementPlan(std::string_view op, const Shape& x, const Shape& indices, int axis, std::size_t unit)
    : op_(op), shape_(indices), axis_(axis), unit_(static_cast<std::int64_t>(unit)) {
  check_element_indices(op, x, indices, axis);
  const int rank = x.rank();
  along_last_ = axis == rank - 1;
  size_ = x.dim(axis);
  rows = product(indices, 0, rank - 1);
  columns = indices.dim(rank - 1);
  rows_apart = along_last_ ? 1 : axis == 0 ? 0 : product(indices, axis, rank - 1);
  const auto dense = dense_strides(x);
  for (std::size_t d = 0; d < static_cast<std::size_t>(rank); ++d) strides_[d] = dense[d] * unit_;
}

template <class I>
void ElementPlan::runs_of(const I* indices, std::int64_t begin, std::int64_t end, std::int64_t first, std::int64_t last,
                          Run fn) const {
  const int outer = shape_.rank() - 1;
  std::array<std::int64_t, kMaxRank> at{};
  std::int64_t rest = begin;
  for (int d = outer; d-- > 0; rest /= shape_.dim(d)) at[static_cast<std::size_t>(d)] = rest % shape_.dim(d);
  const std::int64_t stride = strides_[static_cast<std::size_t>(axis_)];
  std::int64_t offsets[kIndexBlock];
  for (std::int64_t row = begin; row < end; ++row) {
    std::int64_t base = 0;
    for (int d = 0; d < outer; ++d)
      if (d != axis_) base += at[static_cast<std::size_t>(d)] * strides_[static_cast<std::size_t>(d)];
    for (std::int64_t column = first; column < last; column += kIndexBlock) {
      const std::int64_t n = std::min(kIndexBlock, last - column), place = row * columns + column;
      for (std::int64_t j = 0; j < n; ++j) offsets[j] = along_last_ ? base : base + (column + j) * unit_;
      if (!add_offsets(indices + place, 1, n, size_, stride, offsets))
        throw_first_bad(op_, indices + place, 1, n, size_, place);
      fn(place, offsets, n);
    }
    for (int d = outer; d-- > 0;) {
      const auto i = static_cast<std::size_t>(d);
      if (++at[i] < shape_.dim(d)) break;
      at[i] = 0;
    }
  }
}

void ElementPlan::for_each_run(const Tensor& indices, std::int64_t begin, std::int64_t end, std::int64_t first,
                               std::int64_t last, Run fn) const {
  dispatch(IndexTypes{}, indices.dtype(), [&]<class I>() { runs_of(indices.data<I>(), begin, end, first, last, fn); });
}

}  // namespace troupe
