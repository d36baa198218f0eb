// Gradients as shards see them: checked against the slice they are for, and averaged in slot order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <troupe/graph/training/sparse_mean.hpp>
#include <troupe/messages/error.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// A part of a variable that one shard owns.
struct SliceSpec {
  std::uint32_t id = 0;  // its index in the ShardMap
  std::string name;      // for people
  DType dtype = DType::f32;
  Shape shape;
};

// Dense: `values` has the slice's shape. Sparse: `values` has rows of the slice, [n, shape[1:]...], and
// `indices` (i64 [n]) their numbers; a row may occur more than once.
struct PushedGradient {
  Tensor values;
  Tensor indices;
  bool sparse() const { return indices.valid(); }
  std::size_t num_bytes() const { return values.num_bytes() + indices.num_bytes(); }
};

// Can gradients of this dtype be averaged? f16, bf16, f32, f64, i64.
bool is_gradient_dtype(DType dtype);

// invalid_argument, naming what is wrong, if `gradient` does not fit `slice` or is not in host memory; else
// ok.
Error check_gradient(const SliceSpec& slice, const PushedGradient& gradient);

// ((g0 + g1) + g2 …) / N, element by element in the arithmetic of the dtype: one rounding per addition and
// one for the division (f16, bf16: computed in f32 and rounded once; i64: wraps, truncates). The only one of
// N = 1 is returned as it is. Sparse: rows concatenated in the same order, each divided by what `sparse_mean`
// says. Needs at least
// one gradient, all checked against the same slice, all dense or all sparse. May reuse the memory of a
// gradient nobody else holds.
PushedGradient mean_of(std::vector<PushedGradient> gradients, SparseMean sparse_mean = SparseMean::all_slots);

}  // namespace troupe
