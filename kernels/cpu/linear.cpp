#include "kernels/cpu/linear.hpp"

#include <algorithm>
#include <vector>

#include "kernels/cpu/families.hpp"
#include "kernels/cpu/gemm.hpp"
#include "kernels/cpu/tensor_checks.hpp"

namespace troupe {
namespace {

// Multiply-adds worth a part of their own: about a tenth of a millisecond, many times the cost of waking a
// thread.
constexpr std::int64_t kPartProducts = std::int64_t{1} << 22;
// Elements worth a part, where each costs about a load.
constexpr std::int64_t kPartElements = std::int64_t{1} << 15;
// Parts have multiples of this many rows or columns: each part packs the other factor anew, which fewer would
// not repay (1024^3 runs at 78 GFLOP/s in parts of 48 and at 114 in parts of 144), and multiples of 48 are
// full register tiles.
constexpr std::int64_t kTile = 144;

// Splits the longer side of the output, so that neither factor is packed more often than it must.
template <class T>
void matmul_typed(Parallelism& parallelism, MatrixView<T> a, MatrixView<T> b, std::int64_t m, std::int64_t n,
                  std::int64_t k, T* out) {
  const bool by_rows = m >= n;
  const std::int64_t length = by_rows ? m : n;
  const std::int64_t cost = std::max<std::int64_t>(1, k * (by_rows ? n : m));
  const std::int64_t grain = (kPartProducts / cost / kTile + 1) * kTile;
  parallelism.parallel_for(length, grain, [&](std::int64_t begin, std::int64_t end) {
    MatrixView<T> left = a, right = b;
    if (by_rows) {
      left.data += left.transposed ? begin : begin * left.stride;
      gemm(end - begin, n, k, left, right, out + begin * n, n);
    } else {
      right.data += right.transposed ? begin * right.stride : begin;
      gemm(m, end - begin, k, left, right, out + begin, n);
    }
  });
}

template <class T>
void matmul_typed(Parallelism& parallelism, const Tensor& a, const Tensor& b, bool transpose_a,
                  bool transpose_b, Tensor& out) {
  matmul_typed<T>(parallelism, {a.data<T>(), a.shape()[1], transpose_a},
                  {b.data<T>(), b.shape()[1], transpose_b}, out.shape()[0], out.shape()[1],
                  a.shape()[transpose_a ? 0 : 1], out.mutable_data<T>());
}

struct Rows {
  std::int64_t count = 0;
  std::int64_t width = 0;
};
Rows rows_of(std::string_view what, const Shape& shape) {
  if (shape.rank() < 1) invalid_argument("{} must have at least one dimension, but is a scalar", what);
  const std::int64_t width = shape[-1];
  return {width == 0 ? 0 : shape.num_elements() / width, width};
}

std::int64_t rows_per_part(std::int64_t width) {
  return std::max<std::int64_t>(1, kPartElements / std::max<std::int64_t>(1, width));
}

template <class T>
void bias_add_typed(Parallelism& parallelism, const T* x, const T* bias, Rows rows, T* out) {
  parallelism.parallel_for(rows.count, rows_per_part(rows.width), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t j = 0; j < rows.width; ++j) out[i * rows.width + j] = x[i * rows.width + j] + bias[j];
  });
}

template <class T>
void add_rows(const T* __restrict rows, std::int64_t count, std::int64_t width, T* __restrict sum) {
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t j = 0; j < width; ++j) sum[j] += rows[i * width + j];
}

template <class T>
void bias_add_grad_typed(Parallelism& parallelism, const T* dy, Rows rows, T* out) {
  std::fill_n(out, rows.width, T{0});
  if (rows.count == 0) return;
  // Blocks keep the sums short (rounding) and are the parts for threads.
  const std::int64_t block = std::min<std::int64_t>(512, rows_per_part(rows.width));
  const std::int64_t blocks = (rows.count + block - 1) / block;
  if (blocks == 1) return add_rows(dy, rows.count, rows.width, out);
  std::vector<T> partial(static_cast<std::size_t>(blocks * rows.width), T{0});
  parallelism.parallel_for(rows.count, block, [&](std::int64_t begin, std::int64_t end) {
    add_rows(dy + begin * rows.width, end - begin, rows.width, partial.data() + begin / block * rows.width);
  });
  add_rows(partial.data(), blocks, rows.width, out);
}

Kernel make_matmul(const KernelInit& init) {
  return [ta = init.attributes.boolean("transpose_a"),
          tb = init.attributes.boolean("transpose_b")](KernelContext& ctx) {
    const Tensor& a = ctx.input(0);
    const Tensor& b = ctx.input(1);
    Tensor out = ctx.allocate(a.dtype(), matmul_shape(a.shape(), b.shape(), ta, tb));
    matmul(ctx.parallelism(), a, b, ta, tb, out);
    ctx.set_output(0, std::move(out));
  };
}

Kernel make_bias_add(const KernelInit&) {
  return [](KernelContext& ctx) {
    Tensor out = ctx.take_input(0);  // in place if nobody else needs x
    if (out.valid()) {
      const Tensor x = out;
      bias_add(ctx.parallelism(), x, ctx.input(1), out);
    } else {
      const Tensor& x = ctx.input(0);
      out = ctx.allocate(x.dtype(), x.shape());
      bias_add(ctx.parallelism(), x, ctx.input(1), out);
    }
    ctx.set_output(0, std::move(out));
  };
}

Kernel make_bias_add_grad(const KernelInit&) {
  return [](KernelContext& ctx) {
    const Tensor& dy = ctx.input(0);
    Tensor out = ctx.allocate(dy.dtype(), Shape{rows_of("BiasAddGrad: dy", dy.shape()).width});
    bias_add_grad(ctx.parallelism(), dy, out);
    ctx.set_output(0, std::move(out));
  };
}

}  // namespace

Shape matmul_shape(const Shape& a, const Shape& b, bool transpose_a, bool transpose_b) {
  check_rank("MatMul: a", a, 2);
  check_rank("MatMul: b", b, 2);
  if (a[transpose_a ? 0 : 1] != b[transpose_b ? 1 : 0])
    invalid_argument("MatMul: inner dimensions differ: {}{} x {}{}", a.to_string(),
                     transpose_a ? " transposed" : "", b.to_string(), transpose_b ? " transposed" : "");
  return {a[transpose_a ? 1 : 0], b[transpose_b ? 0 : 1]};
}

void matmul(Parallelism& parallelism, const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b,
            Tensor& out) {
  check_tensor("MatMul: b", b, a.dtype(), b.shape());
  check_tensor("MatMul: the output", out, a.dtype(),
               matmul_shape(a.shape(), b.shape(), transpose_a, transpose_b));
  const Tensor left = aligned(a), right = aligned(b);
  switch (a.dtype()) {
    case DType::f32:
      return matmul_typed<float>(parallelism, left, right, transpose_a, transpose_b, out);
    case DType::f64:
      return matmul_typed<double>(parallelism, left, right, transpose_a, transpose_b, out);
    case DType::i32:
      return matmul_typed<std::int32_t>(parallelism, left, right, transpose_a, transpose_b, out);
    case DType::i64:
      return matmul_typed<std::int64_t>(parallelism, left, right, transpose_a, transpose_b, out);
    default:
      invalid_argument("MatMul: no product of {} on the CPU", name(a.dtype()));
  }
}

void bias_add(Parallelism& parallelism, const Tensor& x, const Tensor& bias, Tensor& out) {
  const Rows rows = rows_of("BiasAdd: x", x.shape());
  check_tensor("BiasAdd: bias", bias, x.dtype(), Shape{rows.width});
  check_tensor("BiasAdd: the output", out, x.dtype(), x.shape());
  if (x.dtype() == DType::f32)
    bias_add_typed(parallelism, x.data<float>(), bias.data<float>(), rows, out.mutable_data<float>());
  else
    bias_add_typed(parallelism, x.data<double>(), bias.data<double>(), rows, out.mutable_data<double>());
}

void bias_add_grad(Parallelism& parallelism, const Tensor& dy, Tensor& out) {
  const Rows rows = rows_of("BiasAddGrad: dy", dy.shape());
  check_tensor("BiasAddGrad: the output", out, dy.dtype(), Shape{rows.width});
  if (dy.dtype() == DType::f32)
    bias_add_grad_typed(parallelism, dy.data<float>(), rows, out.mutable_data<float>());
  else
    bias_add_grad_typed(parallelism, dy.data<double>(), rows, out.mutable_data<double>());
}

void register_linear_kernels(KernelRegistry& registry) {
  registry.add({"MatMul", "CPU", {DType::f32, DType::f64, DType::i32, DType::i64}, make_matmul});
  registry.add({"BiasAdd", "CPU", {DType::f32, DType::f64}, make_bias_add});
  registry.add({"BiasAddGrad", "CPU", {DType::f32, DType::f64}, make_bias_add_grad});
}

}  // namespace troupe
