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
#include <troupe/messages/element_types.hpp>

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

// All products of the plan. Parts, of matrices or of the batch, depend on the sizes alone.
template <class T>
void multiply(Parallelism& parallelism, const MatMulPlan& plan, MatrixView<T> a, MatrixView<T> b, T* out,
              Finish<T> finish) {
  const std::int64_t m = plan.m, n = plan.n, k = plan.k;
  const GemmParts parts = gemm_parts(m, n, k);
  const auto count = [](std::int64_t length, std::int64_t step) { return step == 0 ? 0 : (length + step - 1) / step; };
  const std::int64_t columns = count(n, parts.column_step), parts_of_one = count(m, parts.row_step) * columns;
  const std::int64_t together = plan.count == 1 ? 1 : small_products(m, n, k);
  parallelism.parallel_for(plan.count * parts_of_one, together, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t index = begin; index < end; ++index) {
      const std::int64_t part = index % parts_of_one, product = index / parts_of_one;
      const std::int64_t top = part / columns * parts.row_step, left = part % columns * parts.column_step;
      const std::int64_t height = std::min(parts.row_step, m - top), width = std::min(parts.column_step, n - left);
      const MatMulPlan::Place place = plan.place(product);
      MatrixView<T> rows = a, cols = b;
      rows.data += place.a + (rows.transposed ? top : top * rows.stride);
      cols.data += place.b + (cols.transposed ? left * cols.stride : left);
      T* const to = out + (product * m + top) * n + left;
      gemm(height, width, k, rows, cols, to, n);
      if constexpr (!std::is_integral_v<T>)
        if (finish.bias) add_bias(finish.activation, to, finish.bias + left, height, width, n, to);
    }
  });
}

template <class T>
void matmul_typed(Parallelism& parallelism, const MatMulPlan& plan, const Tensor& a, const Tensor& b,
                  MatMulOptions options, Tensor& out, const Tensor* bias) {
  Finish<T> finish;
  if (bias) finish = {bias->data<T>(), options.activation};
  multiply<T>(parallelism, plan, {a.data<T>(), plan.a_stride, options.transpose_a},
              {b.data<T>(), plan.b_stride, options.transpose_b}, out.mutable_data<T>(), finish);
}

// f16, and bf16 on a CPU that cannot multiply it: the float product, rounded.
template <class T>
void matmul_narrow(Parallelism& parallelism, const MatMulPlan& plan, const Tensor& a, const Tensor& b,
                   MatMulOptions options, Tensor& out, const Tensor* bias) {
  const ScratchArray<float> left(a.num_elements()), right(b.num_elements()), product(out.num_elements());
  convert_elements(parallelism, a.data<T>(), left.data(), a.num_elements());
  convert_elements(parallelism, b.data<T>(), right.data(), b.num_elements());
  multiply<float>(parallelism, plan, {left.data(), plan.a_stride, options.transpose_a},
                  {right.data(), plan.b_stride, options.transpose_b}, product.data(), {});
  convert_elements(parallelism, product.data(), out.mutable_data<T>(), out.num_elements());
  if (bias) bias_add(parallelism, out, *bias, out, options.activation);
}

// Sums modulo 2^bits do not depend on the sign.
template <class T>
void matmul_integers(Parallelism& parallelism, const MatMulPlan& plan, const Tensor& a, const Tensor& b,
                     MatMulOptions options, Tensor& out) {
  multiply<T>(parallelism, plan, {reinterpret_cast<const T*>(a.raw()), plan.a_stride, options.transpose_a},
              {reinterpret_cast<const T*>(b.raw()), plan.b_stride, options.transpose_b},
              reinterpret_cast<T*>(out.mutable_raw()), {});
}

// `bias` may be null.
void matmul(Parallelism& parallelism, const MatMulPlan& plan, const Tensor& a, const Tensor& b, const Tensor* bias,
            MatMulOptions options, Tensor& out) {
  check_tensor("MatMul: b", b, a.dtype(), b.shape());
  check_tensor("MatMul: the output", out, a.dtype(), plan.out);
  if (bias) check_tensor("FusedMatMul: bias", *bias, a.dtype(), Shape{plan.n});
  const Tensor left = aligned(a), right = aligned(b);
  switch (a.dtype()) {
    case DType::f32:
      return matmul_typed<float>(parallelism, plan, left, right, options, out, bias);
    case DType::f64:
      return matmul_typed<double>(parallelism, plan, left, right, options, out, bias);
    case DType::f16:
      return matmul_narrow<Half>(parallelism, plan, a, b, options, out, bias);
    case DType::bf16:
      if (onednn::has_bf16()) return matmul_typed<BFloat16>(parallelism, plan, left, right, options, out, bias);
      return matmul_narrow<BFloat16>(parallelism, plan, a, b, options, out, bias);
    case DType::i8:
    case DType::u8:
      return matmul_integers<std::uint8_t>(parallelism, plan, a, b, options, out);
    case DType::i16:
    case DType::u16:
      return matmul_integers<std::uint16_t>(parallelism, plan, a, b, options, out);
    case DType::i32:
    case DType::u32:
      return matmul_integers<std::uint32_t>(parallelism, plan, a, b, options, out);
    case DType::i64:
    case DType::u64:
      return matmul_integers<std::uint64_t>(parallelism, plan, a, b, options, out);
    default:
      invalid_argument("MatMul: dtype {} is not supported on the CPU", name(a.dtype()));
  }
}

Kernel make_product(MatMulOptions options, bool fused) {
  return [options, fused](KernelContext& ctx) {
    const Tensor& a = ctx.input(0);
    const Tensor& b = ctx.input(1);
    const MatMulPlan plan = matmul_plan(a.shape(), b.shape(), options.transpose_a, options.transpose_b);
    Tensor out = ctx.allocate(a.dtype(), plan.out);
    matmul(ctx.parallelism(), plan, a, b, fused ? &ctx.input(2) : nullptr, options, out);
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
  const MatMulPlan plan = matmul_plan(a.shape(), b.shape(), transpose_a, transpose_b);
  matmul(parallelism, plan, a, b, nullptr, {.transpose_a = transpose_a, .transpose_b = transpose_b}, out);
}

void register_linear_kernels(KernelRegistry& registry) {
  registry.add({"MatMul", "CPU", dtypes_of(RealTypes{}), make_matmul});
  registry.add({"FusedMatMul", "CPU", {DType::f32, DType::f64, DType::f16, DType::bf16}, make_fused_matmul});
}

}  // namespace troupe
