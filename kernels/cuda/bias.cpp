// Bias kernels; f32, f64, f16, bf16 (computed in f32, rounded to nearest even).
#include <troupe/devices/cuda/cuda_error.hpp>
#include <troupe/graph/ops/windows.hpp>
#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cuda/bias_launch.hpp>
#include <troupe/kernels/cuda/reduce.hpp>

namespace troupe {
namespace {

void check_at_least_two(std::string_view what, const Shape& shape) {
  if (shape.rank() < 2)
    invalid_argument("{} must have at least two dimensions, but its shape is {}", what, shape.to_string());
}

// Size of the last dimension.
std::int64_t width_of(std::string_view what, const Shape& shape) {
  if (shape.rank() < 1) invalid_argument("{} must have at least one dimension, but is a scalar", what);
  return shape[-1];
}

void bias_add_planes(KernelContext& context) {
  const DType dtype = context.input(0).dtype();
  const Shape shape = context.input(0).shape();
  check_at_least_two("BiasAdd: x", shape);
  check_tensor("BiasAdd: bias", context.input(1), dtype, Shape{shape[1]});
  const void* x = context.input(0).raw();
  const Tensor& bias = context.input(1);
  Tensor out = context.take_or_allocate(0, dtype, shape);
  const std::int64_t planes = shape[0] * shape[1];
  if (out.num_elements() > 0)
    check_cuda(launch_bias_add_planes(dtype, x, bias.raw(), out.mutable_raw(), planes, shape[1],
                                      out.num_elements() / planes, cuda_device(context).stream()),
               "BiasAdd");
  context.set_output(0, std::move(out));
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

void bias_add_grad_planes(KernelContext& context) {
  const Tensor& dy = context.input(0);
  check_at_least_two("BiasAddGrad: dy", dy.shape());
  const std::int64_t planes = dy.shape()[0] * dy.shape()[1];
  const CudaReduceDim dims[] = {
      {dy.shape()[0], true}, {dy.shape()[1], false}, {planes == 0 ? 0 : dy.num_elements() / planes, true}};
  context.set_output(0, cuda_reduce(context, CudaReduction::sum, dy, dims, Shape{dy.shape()[1]}));
}

using BiasKernel = void (*)(KernelContext&);

// Chooses by attribute "data_format".
KernelFactory of_format(BiasKernel last, BiasKernel first) {
  return
      [=](const KernelInit& init) -> Kernel { return window_options(init.attributes).channels_first() ? first : last; };
}

}  // namespace

void register_cuda_bias_kernels(KernelRegistry& registry) {
  const auto floating = {DType::f32, DType::f64, DType::f16, DType::bf16};
  add_cuda(registry, "BiasAdd", floating, of_format(bias_add, bias_add_planes));
  add_cuda(registry, "BiasAddGrad", floating, of_format(bias_add_grad, bias_add_grad_planes));
}

}  // namespace troupe
