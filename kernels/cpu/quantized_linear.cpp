// MatMulInteger and QLinearMatMul.
#include <algorithm>
#include <vector>

#include <troupe/kernels/common/matmul_shape.hpp>
#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/gemm_bytes.hpp>
#include <troupe/kernels/cpu/gemm_table.hpp>
#include <troupe/kernels/cpu/scratch.hpp>

namespace troupe {
namespace {

void check_bytes(std::string_view what, const Tensor& t) {
  if (t.dtype() != DType::i8 && t.dtype() != DType::u8)
    invalid_argument("{} must be i8 or u8, but is {}{}", what, name(t.dtype()), t.shape().to_string());
}

// Values of the rows of a, or columns of b: one for all, one per row of every matrix ([m]), or one per row of each
// ([...,m,1]). `at` gives that of row `index` of all matrices.
struct PerRow {
  const Tensor* values = nullptr;
  std::int64_t rows = 1;  // of a matrix
  std::int64_t at(std::int64_t index) const {
    const std::int64_t count = values->num_elements();
    return count == 1 ? 0 : count == rows ? index % rows : index;
  }
  bool single() const { return values->num_elements() == 1; }
};

// `axis` of the last two dimensions of `matrices` is the one with a value per row.
PerRow per_row(std::string_view what, const Tensor& values, const Shape& matrices, int axis) {
  const std::int64_t rows = matrices.rank() > 1 || axis == -1 ? matrices[axis] : 1;
  const Shape& shape = values.shape();
  Shape each = matrices;
  if (matrices.rank() > 1) each.set_dim(axis == -1 ? -2 : -1, 1);
  if (values.num_elements() == 1 || shape == Shape{rows} || (matrices.rank() > 1 && shape == each))
    return {&values, rows};
  invalid_argument("{} must be a scalar, {}{}, but is {}", what, Shape{rows}.to_string(),
                   matrices.rank() > 1 ? " or " + each.to_string() : "", shape.to_string());
}

struct Factors {
  const Tensor &a, &a_zero, &b, &b_zero;
};

// Bytes less their zero points.
void widen_rows(Parallelism& parallelism, const Tensor& t, const Tensor& zero, PerRow zeros, float* to) {
  const std::int64_t width = t.shape()[-1];
  const std::int64_t grain = std::max<std::int64_t>(1, (1 << 15) / std::max<std::int64_t>(width, 1));
  parallelism.parallel_for(width == 0 ? 0 : t.num_elements() / width, grain, [&](std::int64_t begin, std::int64_t end) {
    if (zeros.single())
      return subtract_zero_point(t, begin * width, (end - begin) * width, zero_point(zero), to + begin * width);
    for (std::int64_t row = begin; row < end; ++row)
      subtract_zero_point(t, row * width, width, zero_point(zero, zeros.at(row)), to + row * width);
  });
}
void widen_columns(Parallelism& parallelism, const Tensor& t, const Tensor& zero, PerRow zeros, float* to) {
  if (zeros.single() || t.shape().rank() == 1) return widen_rows(parallelism, t, zero, {&zero, 1}, to);
  const std::int64_t k = t.shape()[-2], n = t.shape()[-1];
  parallelism.parallel_for(n == 0 ? 0 : t.num_elements() / n, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      subtract_zero_point(t, row * n, n, 0, to + row * n);
      for (std::int64_t j = 0; j < n; ++j)
        to[row * n + j] -= static_cast<float>(zero_point(zero, zeros.at(row / k * n + j)));
    }
  });
}

// Calls finish(product, top, height, sums) for parts of rows of each product: sums [height, n], in memory of the
// thread.
template <class Finish>
void multiply_bytes(Parallelism& parallelism, const MatMulPlan& plan, const Factors& f, Finish finish) {
  check_bytes("a", f.a);
  check_bytes("b", f.b);
  check_tensor("a_zero_point", f.a_zero, f.a.dtype(), f.a_zero.shape());
  check_tensor("b_zero_point", f.b_zero, f.b.dtype(), f.b_zero.shape());
  const ScratchArray<float> left(f.a.num_elements()), right(f.b.num_elements());
  widen_rows(parallelism, f.a, f.a_zero, per_row("a_zero_point", f.a_zero, f.a.shape(), -2), left.data());
  widen_columns(parallelism, f.b, f.b_zero, per_row("b_zero_point", f.b_zero, f.b.shape(), -1), right.data());
  const std::int64_t step = std::max<std::int64_t>(gemm_parts(plan.m, plan.n, plan.k).row_step, 1);
  const std::int64_t parts = (plan.m + step - 1) / step;
  const std::int64_t together = plan.count == 1 ? 1 : small_products(plan.m, plan.n, plan.k);
  parallelism.parallel_for(plan.count * parts, together, [&](std::int64_t begin, std::int64_t end) {
    const ScratchArray<std::int32_t> sums(std::min(step, plan.m) * plan.n);
    for (std::int64_t index = begin; index < end; ++index) {
      const std::int64_t product = index / parts, top = index % parts * step, height = std::min(step, plan.m - top);
      const MatMulPlan::Place place = plan.place(product);
      gemm_bytes(height, plan.n, plan.k, {left.data() + place.a + top * plan.a_stride, plan.a_stride},
                 {right.data() + place.b, plan.b_stride}, sums.data(), plan.n);
      finish(product, top, height, sums.data());
    }
  });
}

// Inputs: a, b, a_zero_point, b_zero_point.
void matmul_integer(KernelContext& ctx) {
  const Tensor &a = ctx.input(0), &b = ctx.input(1);
  const MatMulPlan plan = matmul_plan(a.shape(), b.shape(), false, false);
  Tensor out = ctx.allocate(DType::i32, plan.out);
  std::int32_t* const to = out.mutable_data<std::int32_t>();
  multiply_bytes(ctx.parallelism(), plan, {a, ctx.input(2), b, ctx.input(3)},
                 [&](std::int64_t product, std::int64_t top, std::int64_t height, const std::int32_t* sums) {
                   std::copy_n(sums, height * plan.n, to + (product * plan.m + top) * plan.n);
                 });
  ctx.set_output(0, std::move(out));
}

// Inputs: a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point.
void qlinear_matmul(KernelContext& ctx) {
  const Tensor &a = ctx.input(0), &b = ctx.input(3), &y_zero = ctx.input(7);
  const MatMulPlan plan = matmul_plan(a.shape(), b.shape(), false, false);
  check_bytes("y_zero_point", y_zero);
  for (const int i : {1, 4, 6}) check_tensor("a scale", ctx.input(i), DType::f32, ctx.input(i).shape());
  for (const int i : {6, 7})
    if (ctx.input(i).num_elements() != 1)
      invalid_argument("y_scale and y_zero_point must be scalars, not {}", ctx.input(i).shape().to_string());
  const PerRow a_scales = per_row("a_scale", ctx.input(1), a.shape(), -2),
               b_scales = per_row("b_scale", ctx.input(4), b.shape(), -1);
  const float *a_scale = ctx.input(1).data<float>(), *b_scale = ctx.input(4).data<float>();
  const float y_scale = *ctx.input(6).data<float>();
  const std::int32_t zero = zero_point(y_zero);
  const bool is_signed = y_zero.dtype() == DType::i8;
  Tensor out = ctx.allocate(y_zero.dtype(), plan.out);
  std::byte* const to = out.mutable_raw();
  const auto finish = [&](std::int64_t product, std::int64_t top, std::int64_t height, const std::int32_t* sums) {
    std::byte* const rows = to + (product * plan.m + top) * plan.n;
    if (a_scales.single() && b_scales.single())
      return requantize(sums, height * plan.n, *a_scale * *b_scale / y_scale, zero, is_signed, rows);
    const MatMulPlan::Place place = plan.place(product);
    const std::int64_t first_row = (plan.k == 0 ? 0 : place.a / plan.k) + top,
                       first_column = plan.k == 0 ? 0 : place.b / plan.k;
    std::vector<float> scales(static_cast<std::size_t>(plan.n));
    for (std::int64_t i = 0; i < height; ++i) {
      const float row = a_scale[a_scales.at(first_row + i)];
      for (std::int64_t j = 0; j < plan.n; ++j)
        scales[static_cast<std::size_t>(j)] = row * b_scale[b_scales.at(first_column + j)] / y_scale;
      requantize(sums + i * plan.n, plan.n, scales.data(), zero, is_signed, rows + i * plan.n);
    }
  };
  multiply_bytes(ctx.parallelism(), plan, {a, ctx.input(2), b, ctx.input(5)}, finish);
  ctx.set_output(0, std::move(out));
}

}  // namespace

void register_quantized_linear_kernels(KernelRegistry& registry) {
  const std::vector<DType> bytes{DType::i8, DType::u8};
  registry.add({"MatMulInteger", "CPU", bytes, [](const KernelInit&) -> Kernel { return matmul_integer; }});
  registry.add({"QLinearMatMul", "CPU", bytes, [](const KernelInit&) -> Kernel { return qlinear_matmul; }});
}

}  // namespace troupe
