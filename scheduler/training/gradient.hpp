// Gradients on a shard: checks them against their slice, and averages them in slot order.
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
  std::string name;      // for display
  DType dtype = DType::f32;
  Shape shape;
  std::uint32_t phase = 0;  // of a step: the one in which it is updated
  bool by_rows = false;     // an update changes only the rows of its gradient
  bool on_demand = false;   // pulled by rows; else its pull is answered with the numbers of updated rows, i64 [n]
};

// Dense: `values` has the slice's shape. Sparse: `values` [n, shape[1:]...] holds rows of the slice, and `indices` (i64
// [n]) their numbers; a row may occur more than once.
struct PushedGradient {
  Tensor values;
  Tensor indices;
  double rate_scale = 1;  // Push::rate_scale, Push::keep
  bool keep = false;
  bool sparse() const { return indices.valid(); }
  std::size_t num_bytes() const { return values.num_bytes() + indices.num_bytes(); }
};

// Whether gradients of this dtype can be averaged: f16, bf16, f32, f64, i64.
bool is_gradient_dtype(DType dtype);

// Returns invalid_argument, naming the mismatch, if `gradient` does not match `slice` or is not in host memory.
Error check_gradient(const SliceSpec& slice, const PushedGradient& gradient);

// Returns ((g0 + g1) + g2 …) / N, element by element in the arithmetic of the dtype: one rounding per addition and one
// for the division (f16, bf16: computed in f32 and rounded once; i64: wraps, truncates). A single gradient is returned
// unchanged. Sparse: the rows concatenated in the same order, each divided according to `sparse_mean`. Takes at least
// one gradient, all checked against the same slice, all dense or all sparse. May reuse the memory of a gradient with no
// other holder.
PushedGradient mean_of(std::vector<PushedGradient> gradients, SparseMean sparse_mean = SparseMean::all_slots);

}  // namespace troupe
