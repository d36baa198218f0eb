// Matrix products: cuBLASLt for f32, f64, f16 and bf16, our own kernel for integers.
//
// For f16 and bf16, FusedMatMul rounds after the bias and again after the activation; separate MatMul, BiasAdd and
// activation ops also round before the bias.
#include <algorithm>
#include <limits>
#include <numeric>

#include <troupe/devices/cuda/cuda_error.hpp>
#include <troupe/kernels/common/matmul_shape.hpp>
#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cuda/cublas_lt.hpp>
#include <troupe/kernels/cuda/integer_product_launch.hpp>

namespace troupe {
namespace {

// Calls multiply(first, batch, a_step, b_step) for each run of results whose operands lie at equal steps, in elements.
template <class Multiply>
void for_each_batch(const MatMulPlan& plan, Multiply multiply) {
  const MatMulPlan::Dim inner = plan.rank == 0 ? MatMulPlan::Dim{} : plan.dims[static_cast<std::size_t>(plan.rank - 1)];
  const std::int64_t most = std::numeric_limits<std::int32_t>::max();  // of cuBLASLt's counts
  for (std::int64_t first = 0; first < plan.count; first += inner.size)
    for (std::int64_t begin = 0; begin < inner.size; begin += most)
      multiply(first + begin, std::min(most, inner.size - begin), inner.a_step * plan.m * plan.k,
               inner.b_step * plan.k * plan.n);
}

// Of every matrix in a batch that begins at an aligned address.
std::uint32_t alignment_of_matrices(const MatMulPlan& plan, std::int64_t element) {
  auto alignment = static_cast<std::int64_t>(kBufferAlignment);
  for (const std::int64_t elements : {plan.m * plan.k, plan.k * plan.n, plan.m * plan.n})
    alignment = std::gcd(alignment, elements * element);
  return static_cast<std::uint32_t>(alignment);
}

Kernel make_product(const KernelInit& init, bool fused) {
  const bool transpose_a = init.attributes.boolean("transpose_a"), transpose_b = init.attributes.boolean("transpose_b");
  const FusedActivation activation =
      fused ? parse_activation(init.attributes.string("activation")) : FusedActivation::none;
  return [=](KernelContext& context) {
    const Tensor& a = context.input(0);
    const Tensor& b = context.input(1);
    const MatMulPlan plan = matmul_plan(a.shape(), b.shape(), transpose_a, transpose_b);
    check_tensor("MatMul: b", b, a.dtype(), b.shape());
    if (fused) check_tensor("FusedMatMul: bias", context.input(2), a.dtype(), Shape{plan.n});
    Tensor out = context.allocate(a.dtype(), plan.out);
    const Tensor left = aligned(context, a), right = aligned(context, b),
                 bias = fused ? aligned(context, context.input(2)) : Tensor();
    ProductKey key =
        product_key(cuda_device(context), a.dtype(), a.dtype(), plan.m, plan.n, plan.k, transpose_a, transpose_b);
    const auto size = static_cast<std::int64_t>(size_of(a.dtype()));
    if (plan.rank > 1) key.alignment = alignment_of_matrices(plan, size);
    for_each_batch(plan, [&](std::int64_t first, std::int64_t batch, std::int64_t a_step, std::int64_t b_step) {
      const MatMulPlan::Place place = plan.place(first);
      const std::int64_t offsets[] = {place.a * size, place.b * size, first * plan.m * plan.n * size};
      key.batch = batch;
      key.a_step = batch == 1 ? 0 : a_step;
      key.b_step = batch == 1 ? 0 : b_step;
      multiply(context, key, activation, left.raw() + offsets[0], right.raw() + offsets[1],
               fused ? bias.raw() : nullptr, out.mutable_raw() + offsets[2]);
    });
    context.set_output(0, std::move(out));
  };
}

Kernel make_integer_product(const KernelInit& init) {
  const bool transpose_a = init.attributes.boolean("transpose_a"), transpose_b = init.attributes.boolean("transpose_b");
  return [=](KernelContext& context) {
    const Tensor& a = context.input(0);
    const Tensor& b = context.input(1);
    const MatMulPlan plan = matmul_plan(a.shape(), b.shape(), transpose_a, transpose_b);
    check_tensor("MatMul: b", b, a.dtype(), b.shape());
    Tensor out = context.allocate(a.dtype(), plan.out);
    const auto size = static_cast<std::int64_t>(size_of(a.dtype()));
    for_each_batch(plan, [&](std::int64_t first, std::int64_t batch, std::int64_t a_step, std::int64_t b_step) {
      const MatMulPlan::Place place = plan.place(first);
      const IntegerProduct product{.a = a.raw() + place.a * size,
                                   .b = b.raw() + place.b * size,
                                   .out = out.mutable_raw() + first * plan.m * plan.n * size,
                                   .m = plan.m,
                                   .n = plan.n,
                                   .k = plan.k,
                                   .transpose_a = transpose_a,
                                   .transpose_b = transpose_b,
                                   .batch = batch,
                                   .a_step = a_step,
                                   .b_step = b_step};
      check_cuda(launch_integer_product(a.dtype(), product, cuda_device(context).stream()), "MatMul");
    });
    context.set_output(0, std::move(out));
  };
}

}  // namespace

void register_cuda_linear_kernels(KernelRegistry& registry) {
  const auto types = {DType::f32, DType::f64, DType::f16, DType::bf16};
  add_cuda(registry, "MatMul", types, [](const KernelInit& init) { return make_product(init, false); });
  add_cuda(registry, "MatMul",
           {DType::i8, DType::i16, DType::i32, DType::i64, DType::u8, DType::u16, DType::u32, DType::u64},
           make_integer_product);
  add_cuda(registry, "FusedMatMul", types, [](const KernelInit& init) { return make_product(init, true); });
}

}  // namespace troupe
