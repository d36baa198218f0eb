#include "kernels/cpu/linear.hpp"

#include <algorithm>

#include "kernels/cpu/bias.hpp"
#include "kernels/cpu/families.hpp"
#include "kernels/cpu/gemm.hpp"
#include "kernels/cpu/low_precision.hpp"
#include "kernels/cpu/scratch.hpp"
#include "kernels/cpu/tensor_checks.hpp"

namespace troupe {
namespace {

// Multiply-adds worth a part of their own: about a tenth of a millisecond, many times the cost of waking a
// thread.
constexpr std::int64_t kPartProducts = std::int64_t{1} << 22;
// Parts have multiples of this many rows or columns: each part packs the other factor anew, which fewer would
// not repay (1024^3 runs at 78 GFLOP/s in parts of 48 and at 114 in parts of 144), and multiples of 48 are
// full register tiles.
constexpr std::int64_t kTile = 144;
// Elements worth a part where they are only converted.
constexpr std::int64_t kPartElements = std::int64_t{1} << 15;

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

// f16 and bf16: the product of floats, rounded.
template <class T>
void matmul_narrow(Parallelism& parallelism, const Tensor& a, const Tensor& b, bool transpose_a,
                   bool transpose_b, Tensor& out) {
  const ScratchArray<float> left(a.num_elements()), right(b.num_elements()), product(out.num_elements());
  const auto convert = [&](const T* from, float* to, std::int64_t count) {
    parallelism.parallel_for(count, kPartElements, [=](std::int64_t begin, std::int64_t end) {
      widen(from + begin, to + begin, end - begin);
    });
  };
  convert(a.data<T>(), left.data(), a.num_elements());
  convert(b.data<T>(), right.data(), b.num_elements());
  matmul_typed<float>(parallelism, {left.data(), a.shape()[1], transpose_a},
                      {right.data(), b.shape()[1], transpose_b}, out.shape()[0], out.shape()[1],
                      a.shape()[transpose_a ? 0 : 1], product.data());
  parallelism.parallel_for(out.num_elements(), kPartElements,
                           [from = product.data(), to = out.mutable_data<T>()](auto begin, auto end) {
                             narrow(from + begin, to + begin, end - begin);
                           });
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

Kernel make_fused_matmul(const KernelInit& init) {
  return [ta = init.attributes.boolean("transpose_a"), tb = init.attributes.boolean("transpose_b"),
          activation = parse_activation(init.attributes.string("activation"))](KernelContext& ctx) {
    const Tensor& a = ctx.input(0);
    const Tensor& b = ctx.input(1);
    Tensor out = ctx.allocate(a.dtype(), matmul_shape(a.shape(), b.shape(), ta, tb));
    matmul(ctx.parallelism(), a, b, ta, tb, out);
    bias_add(ctx.parallelism(), out, ctx.input(2), out, activation);
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
    case DType::f16:
      return matmul_narrow<Half>(parallelism, a, b, transpose_a, transpose_b, out);
    case DType::bf16:
      return matmul_narrow<BFloat16>(parallelism, a, b, transpose_a, transpose_b, out);
    case DType::i32:
      return matmul_typed<std::int32_t>(parallelism, left, right, transpose_a, transpose_b, out);
    case DType::i64:
      return matmul_typed<std::int64_t>(parallelism, left, right, transpose_a, transpose_b, out);
    default:
      invalid_argument("MatMul: no product of {} on the CPU", name(a.dtype()));
  }
}

void register_linear_kernels(KernelRegistry& registry) {
  registry.add(
      {"MatMul", "CPU", {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64}, make_matmul});
  registry.add({"FusedMatMul", "CPU", {DType::f32, DType::f64, DType::f16, DType::bf16}, make_fused_matmul});
}

}  // namespace troupe
