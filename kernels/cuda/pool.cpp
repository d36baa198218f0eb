// Pooling on a GPU with our own kernels (f32, f64, f16, bf16; maxima also of i8 and u8): cuDNN pads only symmetrically
// and does not define which of several maxima gets the gradient. Bits match the CPU.
#include <troupe/devices/cuda/cuda_error.hpp>
#include <troupe/kernels/common/pool_geometry.hpp>
#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cuda/cuda_kernels.hpp>
#include <troupe/kernels/cuda/pool_launch.hpp>

namespace troupe {
namespace {

PoolSizes sizes_of(const PoolGeometry& g, Divisor divisor) {
  const auto axis = [](const WindowAxis& a) {
    return PoolAxis{.input = a.input,
                    .kernel = a.kernel,
                    .stride = a.stride,
                    .dilation = a.dilation,
                    .output = a.output,
                    .before = a.before,
                    .after = a.after};
  };
  return {.images = g.batch,
          .channels = g.channels,
          .depth = axis(g.depth),
          .rows = axis(g.rows),
          .columns = axis(g.columns),
          .divisor = static_cast<int>(divisor)};
}

using Forward = cudaError_t (*)(DType, const PoolSizes&, const void*, void*, cudaStream_t);

KernelFactory forward(const char* op, Forward launch) {
  return [=](const KernelInit& init) -> Kernel {
    return [=, options = pool_attributes(init.attributes)](KernelContext& context) {
      const Tensor& x = context.input(0);
      const PoolGeometry g = pool_geometry(x.shape(), options);
      Tensor y = context.allocate(x.dtype(), pool_shape(x.shape(), options));
      if (y.num_elements() > 0)
        check_cuda(
            launch(x.dtype(), sizes_of(g, options.divisor), x.raw(), y.mutable_raw(), cuda_device(context).stream()),
            op);
      context.set_output(0, std::move(y));
    };
  };
}

Kernel make_max_pool_with_indices(const KernelInit& init) {
  return [options = pool_attributes(init.attributes)](KernelContext& context) {
    const Tensor& x = context.input(0);
    const PoolGeometry g = pool_geometry(x.shape(), options);
    Tensor y = context.allocate(x.dtype(), pool_shape(x.shape(), options));
    Tensor indices = context.allocate(DType::i64, y.shape());
    if (y.num_elements() > 0)
      check_cuda(launch_max_pool_indices(x.dtype(), sizes_of(g, options.divisor), x.raw(), y.mutable_raw(),
                                         reinterpret_cast<std::int64_t*>(indices.mutable_raw()),
                                         cuda_device(context).stream()),
                 "MaxPoolWithIndices");
    context.set_output(0, std::move(y));
    context.set_output(1, std::move(indices));
  };
}

Kernel make_max_pool_grad(const KernelInit& init) {
  return [options = pool_attributes(init.attributes)](KernelContext& context) {
    const Tensor &x = context.input(0), &y = context.input(1), &dy = context.input(2);
    Tensor dx = context.allocate(x.dtype(), x.shape());
    const PoolGeometry g = pool_geometry(x.shape(), options);
    check_tensor("MaxPoolGrad: y", y, x.dtype(), pool_shape(x.shape(), options));
    check_tensor("MaxPoolGrad: dy", dy, x.dtype(), pool_shape(x.shape(), options));
    if (dx.num_elements() > 0)
      check_cuda(launch_max_pool_grad(x.dtype(), sizes_of(g, options.divisor), x.raw(), y.raw(), dy.raw(),
                                      dx.mutable_raw(), cuda_device(context).stream()),
                 "MaxPoolGrad");
    context.set_output(0, std::move(dx));
  };
}

Kernel make_avg_pool_grad(const KernelInit& init) {
  return [options = pool_attributes(init.attributes)](KernelContext& context) {
    const Tensor& x = context.input(0);  // only its shape is used
    const Tensor& dy = context.input(1);
    Tensor dx = context.allocate(x.dtype(), x.shape());
    const PoolGeometry g = pool_geometry(x.shape(), options);
    check_tensor("AvgPoolGrad: dy", dy, x.dtype(), pool_shape(x.shape(), options));
    if (dx.num_elements() > 0)
      check_cuda(launch_avg_pool_grad(x.dtype(), sizes_of(g, options.divisor), dy.raw(), dx.mutable_raw(),
                                      cuda_device(context).stream()),
                 "AvgPoolGrad");
    context.set_output(0, std::move(dx));
  };
}

}  // namespace

void register_cuda_pool_kernels(KernelRegistry& registry) {
  const auto types = {DType::f32, DType::f64, DType::f16, DType::bf16};
  const auto maxima = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8, DType::u8};
  add_cuda(registry, "MaxPool", maxima, forward("MaxPool", launch_max_pool));
  add_cuda(registry, "MaxPoolWithIndices", maxima, make_max_pool_with_indices);
  add_cuda(registry, "AvgPool", types, forward("AvgPool", launch_avg_pool));
  add_cuda(registry, "MaxPoolGrad", types, make_max_pool_grad);
  add_cuda(registry, "AvgPoolGrad", types, make_avg_pool_grad);
}

}  // namespace troupe
