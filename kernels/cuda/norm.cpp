// BatchNorm, BatchNormInference, BatchNormGrad, LayerNorm and LayerNormGrad; f32, f64, f16, bf16. Our own kernels
// define the computation, its order and precision once for both devices; cuDNN computes other statistics for f16 and
// bf16, with a choice of engines.
#include <troupe/devices/cuda/cuda_error.hpp>
#include <troupe/kernels/common/activation.hpp>
#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cuda/cuda_kernels.hpp>
#include <troupe/kernels/cuda/norm_launch.hpp>

namespace troupe {
namespace {

bool has_relu(const Attributes& attributes) {
  return parse_activation(attributes.string("activation")) == FusedActivation::relu;
}

DType own_type(const Tensor& x) { return x.dtype() == DType::f64 ? DType::f64 : DType::f32; }

// Views x as rows along its last dimension.
NormColumns columns_of(std::string_view what, const Tensor& x) {
  if (x.shape().rank() < 1) invalid_argument("{} must have at least one dimension, but is a scalar", what);
  NormColumns c{.dtype = x.dtype(), .rows = 0, .width = x.shape()[-1]};
  if (c.width > 0) c.rows = x.num_elements() / c.width;
  ReduceLayout layout;
  layout.reduced = {.all = {{c.rows, c.width}}, .count = 1, .combinations = c.rows};
  layout.inner = c.width;
  layout.inner_reduced = false;
  if (c.rows > 0) c.grid = reduce_grid(layout, x.dtype());
  return c;
}

Tensor partials_of(KernelContext& context, NormColumns& c) {
  Tensor partial =
      context.allocate(DType::u8, Shape{c.width * c.grid.chunks * static_cast<std::int64_t>(kNormPartialBytes)});
  c.partial = partial.mutable_raw();
  return partial;
}

void check_channels(std::string_view what, const Tensor& t, const Tensor& x) {
  check_tensor(what, t, own_type(x), Shape{x.shape()[-1]});
}

cudaStream_t stream_of(KernelContext& context) { return cuda_device(context).stream(); }

Kernel make_batch_norm(const KernelInit& init) {
  return [epsilon = init.attributes.real("epsilon"), relu = has_relu(init.attributes)](KernelContext& context) {
    const Tensor &x = context.input(0), &scale = context.input(1), &offset = context.input(2);
    NormColumns c = columns_of("BatchNorm: x", x);
    check_channels("BatchNorm: scale", scale, x);
    check_channels("BatchNorm: offset", offset, x);
    if (c.rows == 0 && c.width > 0)
      invalid_argument("BatchNorm: x {} has no rows, so it has no mean", x.shape().to_string());
    const auto statistic = [&] { return context.allocate(own_type(x), Shape{c.width}); };
    Tensor y = context.allocate(x.dtype(), x.shape()), mean = statistic(), variance = statistic(),
           inverse = statistic();
    if (y.num_elements() > 0) {
      const Tensor partial = partials_of(context, c);
      check_cuda(
          launch_batch_norm(
              c, {.x = x.raw(), .scale = scale.raw(), .offset = offset.raw(), .relu = relu, .epsilon = epsilon},
              y.mutable_raw(), mean.mutable_raw(), variance.mutable_raw(), inverse.mutable_raw(), stream_of(context)),
          "BatchNorm");
    }
    context.set_output(0, std::move(y));
    context.set_output(1, std::move(mean));
    context.set_output(2, std::move(variance));
    context.set_output(3, std::move(inverse));
  };
}

Kernel make_batch_norm_inference(const KernelInit& init) {
  return [epsilon = init.attributes.real("epsilon"), relu = has_relu(init.attributes)](KernelContext& context) {
    const Tensor& x = context.input(0);
    const NormColumns c = columns_of("BatchNormInference: x", x);
    constexpr const char* kInputs[] = {"BatchNormInference: scale", "BatchNormInference: offset",
                                       "BatchNormInference: mean", "BatchNormInference: variance"};
    for (int i = 0; i < 4; ++i) check_channels(kInputs[i], context.input(i + 1), x);
    Tensor y = context.allocate(x.dtype(), x.shape());
    if (y.num_elements() > 0)
      check_cuda(launch_batch_norm_inference(c,
                                             {.x = x.raw(),
                                              .scale = context.input(1).raw(),
                                              .offset = context.input(2).raw(),
                                              .relu = relu,
                                              .epsilon = epsilon},
                                             context.input(3).raw(), context.input(4).raw(), y.mutable_raw(),
                                             stream_of(context)),
                 "BatchNormInference");
    context.set_output(0, std::move(y));
  };
}

struct Gradients {
  Tensor dx, dscale, doffset;
};
Gradients allocate_gradients(KernelContext& context, const Tensor& x) {
  const Shape channels{x.shape()[-1]};
  return {context.allocate(x.dtype(), x.shape()), context.allocate(own_type(x), channels),
          context.allocate(own_type(x), channels)};
}
void set_gradients(KernelContext& context, Gradients gradients) {
  context.set_output(0, std::move(gradients.dx));
  context.set_output(1, std::move(gradients.dscale));
  context.set_output(2, std::move(gradients.doffset));
}

Kernel make_batch_norm_grad(const KernelInit& init) {
  return [relu = has_relu(init.attributes)](KernelContext& context) {
    const Tensor &dy = context.input(0), &x = context.input(1);
    NormColumns c = columns_of("BatchNormGrad: x", x);
    check_tensor("BatchNormGrad: dy", dy, x.dtype(), x.shape());
    constexpr const char* kInputs[] = {"BatchNormGrad: scale", "BatchNormGrad: offset", "BatchNormGrad: mean",
                                       "BatchNormGrad: inverse_deviation"};
    for (int i = 0; i < 4; ++i) check_channels(kInputs[i], context.input(i + 2), x);
    Gradients g = allocate_gradients(context, x);
    if (x.num_elements() > 0) {
      const Tensor partial = partials_of(context, c);
      check_cuda(launch_batch_norm_grad(
                     c, {.x = x.raw(), .scale = context.input(2).raw(), .offset = context.input(3).raw(), .relu = relu},
                     dy.raw(), context.input(4).raw(), context.input(5).raw(), g.dx.mutable_raw(),
                     g.dscale.mutable_raw(), g.doffset.mutable_raw(), stream_of(context)),
                 "BatchNormGrad");
    } else {
      clear(context, g.dscale, "BatchNormGrad");
      clear(context, g.doffset, "BatchNormGrad");
    }
    set_gradients(context, std::move(g));
  };
}

Shape rows_shape(const Tensor& x) { return x.shape().sub(0, x.shape().rank() - 1); }

Kernel make_layer_norm(const KernelInit& init) {
  return [epsilon = init.attributes.real("epsilon")](KernelContext& context) {
    const Tensor &x = context.input(0), &scale = context.input(1), &offset = context.input(2);
    const NormColumns c = columns_of("LayerNorm: x", x);
    check_channels("LayerNorm: scale", scale, x);
    check_channels("LayerNorm: offset", offset, x);
    Tensor y = context.allocate(x.dtype(), x.shape());
    Tensor mean = context.allocate(own_type(x), rows_shape(x)), inverse = context.allocate(own_type(x), rows_shape(x));
    if (y.num_elements() > 0)
      check_cuda(launch_layer_norm(c, {.x = x.raw(), .scale = scale.raw(), .offset = offset.raw(), .epsilon = epsilon},
                                   y.mutable_raw(), mean.mutable_raw(), inverse.mutable_raw(), stream_of(context)),
                 "LayerNorm");
    else
      for (Tensor* nothing : {&mean, &inverse})  // all bits set is a NaN
        if (nothing->num_bytes() > 0)
          check_cuda(cudaMemsetAsync(nothing->mutable_raw(), 0xff, nothing->num_bytes(), stream_of(context)),
                     "LayerNorm");
    context.set_output(0, std::move(y));
    context.set_output(1, std::move(mean));
    context.set_output(2, std::move(inverse));
  };
}

void layer_norm_grad(KernelContext& context) {
  const Tensor &dy = context.input(0), &x = context.input(1), &scale = context.input(2), &mean = context.input(3),
               &inverse = context.input(4);
  NormColumns c = columns_of("LayerNormGrad: x", x);
  check_tensor("LayerNormGrad: dy", dy, x.dtype(), x.shape());
  check_channels("LayerNormGrad: scale", scale, x);
  check_tensor("LayerNormGrad: mean", mean, own_type(x), rows_shape(x));
  check_tensor("LayerNormGrad: inverse_deviation", inverse, own_type(x), rows_shape(x));
  Gradients g = allocate_gradients(context, x);
  if (x.num_elements() > 0) {
    const Tensor partial = partials_of(context, c);
    check_cuda(
        launch_layer_norm_grad(c, {.x = x.raw(), .scale = scale.raw()}, dy.raw(), mean.raw(), inverse.raw(),
                               g.dx.mutable_raw(), g.dscale.mutable_raw(), g.doffset.mutable_raw(), stream_of(context)),
        "LayerNormGrad");
  } else {
    clear(context, g.dscale, "LayerNormGrad");
    clear(context, g.doffset, "LayerNormGrad");
  }
  set_gradients(context, std::move(g));
}

}  // namespace

void register_cuda_norm_kernels(KernelRegistry& registry) {
  const auto floating = {DType::f32, DType::f64, DType::f16, DType::bf16};
  add_cuda(registry, "BatchNorm", floating, make_batch_norm);
  add_cuda(registry, "BatchNormInference", floating, make_batch_norm_inference);
  add_cuda(registry, "BatchNormGrad", floating, make_batch_norm_grad);
  add_cuda(registry, "LayerNorm", floating, make_layer_norm);
  add_cuda(registry, "LayerNormGrad", floating, layer_norm_grad);
}

}  // namespace troupe
