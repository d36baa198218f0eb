// Shapes of matrix products: which matrices of the operands make which matrix of the result.
#pragma once

#include <array>

#include <troupe/messages/shape.hpp>

namespace troupe {

// A product of any rank as `count` products of matrices, m x k times k x n, in order of the result's memory. Dimensions
// before the last two are broadcast; those of a that b does not have become rows of one big product, if memory allows.
struct MatMulPlan {
  Shape out;  // of the whole result
  std::int64_t m = 1, n = 1, k = 1;
  std::int64_t a_stride = 1, b_stride = 1;  // between rows, as stored
  std::int64_t count = 1;
  // The dimensions of the batch; a step is in matrices of the operand, 0 where it is broadcast.
  struct Dim {
    std::int64_t size = 1;
    std::int64_t a_step = 0;
    std::int64_t b_step = 0;
  };
  int rank = 0;
  std::array<Dim, kMaxRank> dims{};

  // The offsets of the operands' matrices for result `index`, in elements.
  struct Place {
    std::int64_t a = 0;
    std::int64_t b = 0;
  };
  Place place(std::int64_t index) const;
};

// [..., m, k] x [..., k, n] -> [..., m, n], the last two dimensions of a factor swapped first on request. A vector is a
// row [1, k] as a and a column [k, 1] as b, and the result lacks that dimension. Throws invalid_argument, naming the
// shapes, if they do not match.
MatMulPlan matmul_plan(const Shape& a, const Shape& b, bool transpose_a, bool transpose_b);

}  // namespace troupe
