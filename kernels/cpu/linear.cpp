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
#include <troupe/kernels/cpu/packed_product.hpp>
#include <troupe/kernels/cpu/scratch.hpp>
#include <troupe/kernels/cpu/vector_math.hpp>
#include <troupe/messages/element_types.hpp>

namespace troupe {
namespace {

constexpr std::int64_t kElements = std::int64_t{1} << 14;  // of a part, where each is computed by itself

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

// x = gelu(x), elementwise.
void activate_gelu(Parallelism& parallelism, Tensor& x) {
  constexpr float kHalfRoot = 0.70710678f;
  parallelism.parallel_for(x.num_elements(), kElements, [&](std::int64_t begin, std::int64_t end) {
    float* const values = x.mutable_data<float>();
    for (std::int64_t i = begin; i < end; ++i)
      values[i] = 0.5f * values[i] * (1 + VectorMath::erf(values[i] * kHalfRoot));
  });
}

// Products planned for inference: a constant b is laid out once, and what follows is made where the sums are.
Kernel make_inference_product(const KernelInit& init, MatMulOptions options, bool fused, ProductEnding ending) {
  return [=, kept = KeptLayout::of(init.constant(1))](KernelContext& ctx) {
    const Tensor &a = ctx.input(0), &b = ctx.input(1);
    const MatMulPlan plan = matmul_plan(a.shape(), b.shape(), options.transpose_a, options.transpose_b);
    Tensor out = ctx.allocate(DType::f32, plan.out);
    if (kept && !options.transpose_a && b.shape().rank() == 2 && plan.count == 1 && plan.a_stride == plan.k &&
        should_pack(plan.m, plan.n, plan.k)) {
      if (fused) check_tensor("FusedMatMul: bias", ctx.input(2), DType::f32, Shape{plan.n});
      const Tensor left = aligned(a), bias = fused ? aligned(ctx.input(2)) : Tensor();
      packed_product(ctx.parallelism(), plan.m, plan.n, plan.k, left.data<float>(),
                     {b.data<float>(), plan.b_stride, options.transpose_b}, fused ? bias.data<float>() : nullptr,
                     ending, out.mutable_data<float>(), *kept);
    } else {
      matmul(ctx.parallelism(), plan, a, b, fused ? &ctx.input(2) : nullptr, options, out);
      if (ending == ProductEnding::gelu) activate_gelu(ctx.parallelism(), out);
    }
    ctx.set_output(0, std::move(out));
  };
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

bool is_for_inference(const KernelInit& init) {
  return init.attributes.has("_bias_inside") && init.input_types[0] == DType::f32;
}

Kernel make_matmul(const KernelInit& init) {
  const MatMulOptions options = options_of(init.attributes);
  if (is_for_inference(init)) return make_inference_product(init, options, false, ProductEnding::none);
  return make_product(options, false);
}

Kernel make_fused_matmul(const KernelInit& init) {
  MatMulOptions options = options_of(init.attributes);
  options.activation = parse_activation(init.attributes.string("activation"));
  const bool relu = options.activation == FusedActivation::relu;
  if (is_for_inference(init) && (relu || options.activation == FusedActivation::none))
    return make_inference_product(init, options, true, relu ? ProductEnding::relu : ProductEnding::none);
  return make_product(options, true);
}

Kernel make_gelu_matmul(const KernelInit& init) {
  return make_inference_product(init, options_of(init.attributes), true, ProductEnding::gelu);
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
  registry.add({"GeluMatMul", "CPU", {DType::f32}, make_gelu_matmul});
}

}  // namespace troupe
