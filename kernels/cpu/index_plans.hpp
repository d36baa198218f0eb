// How the indices of gathers and scatters address a tensor: shapes checked once, then offsets block by block.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include <troupe/kernels/common/index_geometry.hpp>
#include <troupe/kernels/cpu/index_moves.hpp>
#include <troupe/messages/function_ref.hpp>
#include <troupe/messages/shape.hpp>

namespace troupe {

// Calls fn for runs of the places [begin, end) of a gather: `count` places from `place` on, in slice `slice`. Offsets
// are row numbers times `stride`.
using GatherRun =
    FunctionRef<void(std::int64_t slice, std::int64_t place, const std::int64_t* offsets, std::int64_t count)>;
void for_each_gathered(const GatherGeometry& geometry, const Tensor& indices, std::int64_t stride, std::int64_t begin,
                       std::int64_t end, GatherRun fn);
// For a gather that moves nothing.
void check_gathered(const GatherGeometry& geometry, const Tensor& indices);

// Slices addressed by vectors along the last dimension of `indices`.
class SlicePlan : public SliceGeometry {
 public:
  SlicePlan(std::string_view op, const Shape& x, const Shape& indices, std::int64_t batch_dims)
      : SliceGeometry(op, x, indices, batch_dims), op_(op) {}
  // Calls fn for runs of the slices [begin, end): `count`, at most kIndexBlock, from `slice` on. Offsets are times
  // `unit`, in 32 bits where they fit, or 64.
  template <class Offset>
  using Run = FunctionRef<void(std::int64_t slice, const Offset* offsets, std::int64_t count)>;
  template <class Offset>
  void for_each_run(const Tensor& indices, std::int64_t unit, std::int64_t begin, std::int64_t end,
                    Run<Offset> fn) const;
  bool fits_32_bits(std::int64_t unit) const;

 private:
  std::string_view op_;
};

// Elements of x at the positions of `indices`, with the index as coordinate along the axis.
class ElementPlan {
 public:
  ElementPlan(std::string_view op, const Shape& x, const Shape& indices, int axis, std::size_t unit);
  // Calls fn for runs of the columns [first, last) of rows [begin, end) of the indices. Offsets are times `unit`.
  using Run = FunctionRef<void(std::int64_t place, const std::int64_t* offsets, std::int64_t count)>;
  void for_each_run(const Tensor& indices, std::int64_t begin, std::int64_t end, std::int64_t first, std::int64_t last,
                    Run fn) const;

  std::int64_t rows, columns;  // of the indices: all dimensions but the last, and the last
  std::int64_t rows_apart;     // rows in groups of this size address disjoint elements; 0: they do not
 private:
  template <class I>
  void runs_of(const I* indices, std::int64_t begin, std::int64_t end, std::int64_t first, std::int64_t last,
               Run fn) const;
  std::string_view op_;
  Shape shape_;
  int axis_;
  bool along_last_;
  std::int64_t unit_, size_;
  std::array<std::int64_t, kMaxRank> strides_{};  // of x, times unit
};

}  // namespace troupe
