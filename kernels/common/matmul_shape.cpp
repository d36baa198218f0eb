#include "troupe/kernels/common/matmul_shape.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

void check_matmul_factor(std::string_view name, const Shape& shape, bool transposed) {
  if (shape.rank() < 1) invalid_argument("MatMul: {} must have at least one dimension, but is a scalar", name);
  if (shape.rank() == 1 && transposed)
    invalid_argument("MatMul: {} is a vector {}, which has no transpose", name, shape.to_string());
}

std::int64_t checked_times(std::int64_t x, std::int64_t y) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(x, y, &product)) invalid_argument("MatMul: the result has too many elements");
  return product;
}

// Dimension d of `rank` dimensions before the last two, counted as those of the result are; 1 if there is none.
std::int64_t batch_dim(const Shape& shape, int d, int rank) {
  const int at = d - rank + shape.rank() - 2;
  return at >= 0 ? shape[at] : 1;
}

// The result's batch, one entry per dimension; throws if it cannot be broadcast.
void plan_batch(const Shape& a, const Shape& b, MatMulPlan& plan) {
  plan.rank = std::max({a.rank() - 2, b.rank() - 2, 0});
  std::int64_t a_count = 1, b_count = 1;
  for (int d = plan.rank - 1; d >= 0; --d) {
    const std::int64_t x = batch_dim(a, d, plan.rank), y = batch_dim(b, d, plan.rank);
    if (x != y && x != 1 && y != 1)
      invalid_argument("MatMul: dimensions of {} x {} cannot be broadcast together: {} and {}", a.to_string(),
                       b.to_string(), x, y);
    const std::int64_t size = x == 1 ? y : x;
    plan.dims[static_cast<std::size_t>(d)] = {size, x == 1 ? 0 : a_count, y == 1 ? 0 : b_count};
    a_count = checked_times(a_count, x);
    b_count = checked_times(b_count, y);
    plan.count = checked_times(plan.count, size);
  }
}

// Joins neighbours that both operands walk through with one step, and drops dimensions of size 1.
void merge_batch(MatMulPlan& plan) {
  const auto dims = plan.dims;
  const int rank = std::exchange(plan.rank, 0);
  for (int d = 0; d < rank; ++d) {
    const MatMulPlan::Dim& dim = dims[static_cast<std::size_t>(d)];
    if (dim.size == 1) continue;
    if (plan.rank > 0) {
      MatMulPlan::Dim& outer = plan.dims[static_cast<std::size_t>(plan.rank - 1)];
      if (outer.a_step == dim.a_step * dim.size && outer.b_step == dim.b_step * dim.size) {
        outer = {outer.size * dim.size, dim.a_step, dim.b_step};
        continue;
      }
    }
    plan.dims[static_cast<std::size_t>(plan.rank++)] = dim;
  }
}

}  // namespace

MatMulPlan matmul_plan(const Shape& a, const Shape& b, bool transpose_a, bool transpose_b) {
  check_matmul_factor("a", a, transpose_a);
  check_matmul_factor("b", b, transpose_b);
  const bool row = a.rank() == 1, column = b.rank() == 1;
  MatMulPlan plan;
  plan.m = row ? 1 : a[transpose_a ? -1 : -2];
  plan.k = a[transpose_a ? -2 : -1];
  plan.n = column ? 1 : b[transpose_b ? -2 : -1];
  plan.a_stride = a[-1];
  plan.b_stride = column ? 1 : b[-1];
  if (plan.k != b[column || transpose_b ? -1 : -2])
    invalid_argument("MatMul: inner dimensions differ: {}{} x {}{}", a.to_string(), transpose_a ? " transposed" : "",
                     b.to_string(), transpose_b ? " transposed" : "");
  plan_batch(a, b, plan);
  for (int d = 0; d < plan.rank; ++d) plan.out = plan.out.with_appended(plan.dims[static_cast<std::size_t>(d)].size);
  if (!row) plan.out = plan.out.with_appended(plan.m);
  if (!column) plan.out = plan.out.with_appended(plan.n);
  merge_batch(plan);
  // Rows of all matrices of a lie one after another, and so do those of the result.
  if (plan.rank == 1 && plan.dims[0].b_step == 0 && plan.dims[0].a_step == 1 && !transpose_a) {
    plan.m = checked_times(plan.m, plan.count);
    plan.count = 1;
    plan.rank = 0;
  }
  return plan;
}

MatMulPlan::Place MatMulPlan::place(std::int64_t index) const {
  std::int64_t left = 0, right = 0;
  for (int d = rank - 1; d >= 0; --d) {
    const Dim& dim = dims[static_cast<std::size_t>(d)];
    const std::int64_t at = index % dim.size;
    index /= dim.size;
    left += at * dim.a_step;
    right += at * dim.b_step;
  }
  return {left * m * k, right * k * n};
}

}  // namespace troupe
