// Bias kernels; f32, f64, f16, bf16 (computed in f32, rounded to nearest even).
#include <troupe/devices/cuda/cuda_error.hpp>
#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cuda/bias_launch.hpp>
#include <troupe/kernels/cuda/reduce.hpp>

namespace troupe {
namespace {

// Size of the last dimension.
std::int64_t width_of(std::string_view what, const Shape& shape) {
  if (shape.rank() < 1) invalid_argument("{} must have at least one dimension, but is a scalar", what);
  return shape[-1];
}

void bias_add(KernelContext& context) {
  const DType dtype = context.input(0).dtype();
  const Shape shape = context.input(0).shape();
  const std::int64_t width = width_of("BiasAdd: x", shape);
  const Tensor& bias = context.input(1);
  check_tensor("BiasAdd: bias", bias, dtype, Shape{width});
  const void* x = context.input(0).raw();
  Tensor out = context.take_or_allocate(0, dtype, shape);
  if (out.num_elements() > 0)
    check_cuda(launch_bias_add(dtype, x, bias.raw(), out.mutable_raw(), out.num_elements() / width, width,
                               cuda_device(context).stream()),
               "BiasAdd");
  context.set_output(0, std::move(out));
}

// Sums dy[..., j] over all axes but the last.
void bias_add_grad(KernelContext& context) {
  const Tensor& dy = context.input(0);
  const std::int64_t width = width_of("BiasAddGrad: dy", dy.shape());
  const CudaReduceDim dims[] = {{width == 0 ? 0 : dy.num_elements() / width, true}, {width, false}};
  context.set_output(0, cuda_reduce(context, CudaReduction::sum, dy, dims, Shape{width}));
}

}  // namespace

void register_cuda_bias_kernels(KernelRegistry& registry) {
  const auto floating = {DType::f32, DType::f64, DType::f16, DType::bf16};
  add_cuda(registry, "BiasAdd", floating, bias_add);
  add_cuda(registry, "BiasAddGrad", floating, bias_add_grad);
}

}  // namespace troupe
