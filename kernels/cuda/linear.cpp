// Matrix products: cuBLASLt for f32, f64, f16 and bf16, our own kernel for i32 and i64.
//
// For f16 and bf16, FusedMatMul rounds after the bias and again after the activation; separate MatMul, BiasAdd and
// activation ops also round before the bias.
#include <troupe/devices/cuda/cuda_error.hpp>
#include <troupe/kernels/common/matmul_shape.hpp>
#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cuda/cublas_lt.hpp>
#include <troupe/kernels/cuda/integer_product_launch.hpp>

namespace troupe {
namespace {

Kernel make_product(const KernelInit& init, bool fused) {
  const bool transpose_a = init.attributes.boolean("transpose_a"), transpose_b = init.attributes.boolean("transpose_b");
  const FusedActivation activation =
      fused ? parse_activation(init.attributes.string("activation")) : FusedActivation::none;
  return [=](KernelContext& context) {
    const Tensor& a = context.input(0);
    const Tensor& b = context.input(1);
    const Shape shape = matmul_shape(a.shape(), b.shape(), transpose_a, transpose_b);
    check_tensor("MatMul: b", b, a.dtype(), b.shape());
    if (fused) check_tensor("FusedMatMul: bias", context.input(2), a.dtype(), Shape{shape[1]});
    Tensor out = context.allocate(a.dtype(), shape);
    const Tensor left = aligned(context, a), right = aligned(context, b),
                 bias = fused ? aligned(context, context.input(2)) : Tensor();
    multiply(context,
             product_key(cuda_device(context), a.dtype(), a.dtype(), shape[0], shape[1], a.shape()[transpose_a ? 0 : 1],
                         transpose_a, transpose_b),
             activation, left.raw(), right.raw(), fused ? bias.raw() : nullptr, out.mutable_raw());
    context.set_output(0, std::move(out));
  };
}

Kernel make_integer_product(const KernelInit& init) {
  const bool transpose_a = init.attributes.boolean("transpose_a"), transpose_b = init.attributes.boolean("transpose_b");
  return [=](KernelContext& context) {
    const Tensor& a = context.input(0);
    const Tensor& b = context.input(1);
    const Shape shape = matmul_shape(a.shape(), b.shape(), transpose_a, transpose_b);
    check_tensor("MatMul: b", b, a.dtype(), b.shape());
    Tensor out = context.allocate(a.dtype(), shape);
    const IntegerProduct product{.a = a.raw(),
                                 .b = b.raw(),
                                 .out = out.mutable_raw(),
                                 .m = shape[0],
                                 .n = shape[1],
                                 .k = a.shape()[transpose_a ? 0 : 1],
                                 .transpose_a = transpose_a,
                                 .transpose_b = transpose_b};
    check_cuda(launch_integer_product(a.dtype(), product, cuda_device(context).stream()), "MatMul");
    context.set_output(0, std::move(out));
  };
}

}  // namespace

void register_cuda_linear_kernels(KernelRegistry& registry) {
  const auto types = {DType::f32, DType::f64, DType::f16, DType::bf16};
  add_cuda(registry, "MatMul", types, [](const KernelInit& init) { return make_product(init, false); });
  add_cuda(registry, "MatMul", {DType::i32, DType::i64}, make_integer_product);
  add_cuda(registry, "FusedMatMul", types, [](const KernelInit& init) { return make_product(init, true); });
}

}  // namespace troupe
