#include "troupe/kernels/cpu/linear.hpp"

#include <algorithm>

#include <troupe/kernels/common/matmul_shape.hpp>
#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cpu/bias.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/gemm.hpp>
#include <troupe/kernels/cpu/gemm_table.hpp>
#include <troupe/kernels/cpu/low_precision.hpp>
#include <troupe/kernels/cpu/onednn.hpp>
#include <troupe/kernels/cpu/scratch.hpp>

namespace troupe {
namespace {

struct MatMulOptions {
  bool transpose_a = false;
  bool transpose_b = false;
  FusedActivation activation = FusedActivation::none;
};

// The epilogue of fused ops for a part that is in the cache; does nothing without a bias.
template <class T>
struct Finish {
  const T* bias = nullptr;
  FusedActivation activation = FusedActivation::none;
};

template <class T>
void multiply(Parallelism& parallelism, MatrixView<T> a, MatrixView<T> b, std::int64_t m, std::int64_t n,
              std::int64_t k, T* out, Finish<T> finish) {
  const GemmParts parts = gemm_parts(m, n, k);
  const auto count = [](std::int64_t length, std::int64_t step) { return step == 0 ? 0 : (length + step - 1) / step; };
  const std::int64_t columns = count(n, parts.column_step);
  parallelism.parallel_for(count(m, parts.row_step) * columns, 1, [&](std::int64_t part, std::int64_t) {
    const std::int64_t top = part / columns * parts.row_step, left = part % columns * parts.column_step;
    const std::int64_t height = std::min(parts.row_step, m - top), width = std::min(parts.column_step, n - left);
    MatrixView<T> rows = a, cols = b;
    rows.data += rows.transposed ? top : top * rows.stride;
    cols.data += cols.transposed ? left * cols.stride : left;
    T* const to = out + top * n + left;
    gemm(height, width, k, rows, cols, to, n);
    if constexpr (!std::is_integral_v<T>)
      if (finish.bias) add_bias(finish.activation, to, finish.bias + left, height, width, n, to);
  });
}

template <class T>
void matmul_typed(Parallelism& parallelism, const Tensor& a, const Tensor& b, MatMulOptions options, Tensor& out,
                  const Tensor* bias) {
  Finish<T> finish;
  if (bias) finish = {bias->data<T>(), options.activation};
  multiply<T>(parallelism, {a.data<T>(), a.shape()[1], options.transpose_a},
              {b.data<T>(), b.shape()[1], options.transpose_b}, out.shape()[0], out.shape()[1],
              a.shape()[options.transpose_a ? 0 : 1], out.mutable_data<T>(), finish);
}

// f16, and bf16 on a CPU that cannot multiply it: the float product, rounded.
template <class T>
void matmul_narrow(Parallelism& parallelism, const Tensor& a, const Tensor& b, MatMulOptions options, Tensor& out,
                   const Tensor* bias) {
  const ScratchArray<float> left(a.num_elements()), right(b.num_elements()), product(out.num_elements());
  convert_elements(parallelism, a.data<T>(), left.data(), a.num_elements());
  convert_elements(parallelism, b.data<T>(), right.data(), b.num_elements());
  multiply<float>(parallelism, {left.data(), a.shape()[1], options.transpose_a},
                  {right.data(), b.shape()[1], options.transpose_b}, out.shape()[0], out.shape()[1],
                  a.shape()[options.transpose_a ? 0 : 1], product.data(), {});
  convert_elements(parallelism, product.data(), out.mutable_data<T>(), out.num_elements());
  if (bias) bias_add(parallelism, out, *bias, out, options.activation);
}

// `bias` may be null.
void matmul(Parallelism& parallelism, const Tensor& a, const Tensor& b, const Tensor* bias, MatMulOptions options,
            Tensor& out) {
  check_tensor("MatMul: b", b, a.dtype(), b.shape());
  check_tensor("MatMul: the output", out, a.dtype(),
               matmul_shape(a.shape(), b.shape(), options.transpose_a, options.transpose_b));
  if (bias) check_tensor("FusedMatMul: bias", *bias, a.dtype(), Shape{out.shape()[1]});
  const Tensor left = aligned(a), right = aligned(b);
  switch (a.dtype()) {
    case DType::f32:
      return matmul_typed<float>(parallelism, left, right, options, out, bias);
    case DType::f64:
      return matmul_typed<double>(parallelism, left, right, options, out, bias);
    case DType::f16:
      return matmul_narrow<Half>(parallelism, a, b, options, out, bias);
    case DType::bf16:
      if (onednn::has_bf16()) return matmul_typed<BFloat16>(parallelism, left, right, options, out, bias);
      return matmul_narrow<BFloat16>(parallelism, a, b, options, out, bias);
    case DType::i32:
      return matmul_typed<std::int32_t>(parallelism, left, right, options, out, nullptr);
    case DType::i64:
      return matmul_typed<std::int64_t>(parallelism, left, right, options, out, nullptr);
    default:
      invalid_argument("MatMul: dtype {} is not supported on the CPU", name(a.dtype()));
  }
}

Kernel make_product(MatMulOptions options, bool fused) {
  return [options, fused](KernelContext& ctx) {
    const Tensor& a = ctx.input(0);
    const Tensor& b = ctx.input(1);
    Tensor out = ctx.allocate(a.dtype(), matmul_shape(a.shape(), b.shape(), options.transpose_a, options.transpose_b));
    matmul(ctx.parallelism(), a, b, fused ? &ctx.input(2) : nullptr, options, out);
    ctx.set_output(0, std::move(out));
  };
}

MatMulOptions options_of(const Attributes& attributes) {
  return {.transpose_a = attributes.boolean("transpose_a"), .transpose_b = attributes.boolean("transpose_b")};
}

Kernel make_matmul(const KernelInit& init) { return make_product(options_of(init.attributes), false); }

Kernel make_fused_matmul(const KernelInit& init) {
  MatMulOptions options = options_of(init.attributes);
  options.activation = parse_activation(init.attributes.string("activation"));
  return make_product(options, true);
}

}  // namespace

void matmul(Parallelism& parallelism, const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b,
            Tensor& out) {
  matmul(parallelism, a, b, nullptr, {.transpose_a = transpose_a, .transpose_b = transpose_b}, out);
}

void register_linear_kernels(KernelRegistry& registry) {
  registry.add(
      {"MatMul", "CPU", {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64}, make_matmul});
  registry.add({"FusedMatMul", "CPU", {DType::f32, DType::f64, DType::f16, DType::bf16}, make_fused_matmul});
}

}  // namespace troupe
