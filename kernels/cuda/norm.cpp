// BatchNorm, BatchNormInference, LayerNorm, RMSNorm, GroupNorm and their gradients; f32, f64, f16, bf16. Our own
// kernels define the computation, its order and precision once for both devices; cuDNN computes other statistics for
// f16 and bf16, with a choice of engines.
#include <troupe/devices/cuda/cuda_error.hpp>
#include <troupe/kernels/common/activation.hpp>
#include <troupe/kernels/common/channel_groups.hpp>
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

// Statistics of nothing.
void fill_nan(KernelContext& context, std::initializer_list<Tensor*> statistics, const char* op) {
  for (Tensor* t : statistics)  // all bits set is a NaN
    if (t->num_bytes() > 0) check_cuda(cudaMemsetAsync(t->mutable_raw(), 0xff, t->num_bytes(), stream_of(context)), op);
}

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
      fill_nan(context, {&mean, &inverse}, "LayerNorm");
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

Kernel make_rms_norm(const KernelInit& init) {
  return [epsilon = init.attributes.real("epsilon")](KernelContext& context) {
    const Tensor &x = context.input(0), &scale = context.input(1);
    const NormColumns c = columns_of("RMSNorm: x", x);
    check_channels("RMSNorm: scale", scale, x);
    Tensor y = context.allocate(x.dtype(), x.shape()), inverse = context.allocate(own_type(x), rows_shape(x));
    if (y.num_elements() > 0)
      check_cuda(launch_layer_norm(c, {.x = x.raw(), .scale = scale.raw(), .epsilon = epsilon}, y.mutable_raw(),
                                   nullptr, inverse.mutable_raw(), stream_of(context)),
                 "RMSNorm");
    else
      fill_nan(context, {&inverse}, "RMSNorm");
    context.set_output(0, std::move(y));
    context.set_output(1, std::move(inverse));
  };
}

void rms_norm_grad(KernelContext& context) {
  const Tensor &dy = context.input(0), &x = context.input(1), &scale = context.input(2), &inverse = context.input(3);
  NormColumns c = columns_of("RMSNormGrad: x", x);
  check_tensor("RMSNormGrad: dy", dy, x.dtype(), x.shape());
  check_channels("RMSNormGrad: scale", scale, x);
  check_tensor("RMSNormGrad: inverse", inverse, own_type(x), rows_shape(x));
  Tensor dx = context.allocate(x.dtype(), x.shape()), dscale = context.allocate(own_type(x), Shape{c.width});
  if (x.num_elements() > 0) {
    const Tensor partial = partials_of(context, c);
    check_cuda(launch_layer_norm_grad(c, {.x = x.raw(), .scale = scale.raw()}, dy.raw(), nullptr, inverse.raw(),
                                      dx.mutable_raw(), dscale.mutable_raw(), nullptr, stream_of(context)),
               "RMSNormGrad");
  } else {
    clear(context, dscale, "RMSNormGrad");
  }
  context.set_output(0, std::move(dx));
  context.set_output(1, std::move(dscale));
}

GroupNormLaunch group_launch(const ChannelGroups& g, const Tensor& x, const Tensor& scale) {
  return {.dtype = x.dtype(),
          .examples = g.examples,
          .groups = g.groups,
          .channels = g.channels,
          .positions = g.positions,
          .x = x.raw(),
          .scale = scale.raw()};
}

Kernel make_group_norm(const KernelInit& init) {
  return [given = init.attributes.integer("groups"),
          epsilon = init.attributes.real("epsilon")](KernelContext& context) {
    const Tensor &x = context.input(0), &scale = context.input(1), &offset = context.input(2);
    const Shape statistics{x.shape().rank() < 1 ? 0 : x.shape()[0], checked_groups(given, x.shape())};
    const ChannelGroups g = channel_groups(x.shape(), statistics);
    check_tensor("GroupNorm: scale", scale, own_type(x), Shape{x.shape()[1]});
    check_tensor("GroupNorm: offset", offset, own_type(x), Shape{x.shape()[1]});
    Tensor y = context.allocate(x.dtype(), x.shape()), mean = context.allocate(own_type(x), statistics),
           inverse = context.allocate(own_type(x), statistics);
    if (y.num_elements() > 0) {
      GroupNormLaunch l = group_launch(g, x, scale);
      l.offset = offset.raw();
      l.epsilon = epsilon;
      check_cuda(launch_group_norm(l, y.mutable_raw(), mean.mutable_raw(), inverse.mutable_raw(), stream_of(context)),
                 "GroupNorm");
    } else {
      fill_nan(context, {&mean, &inverse}, "GroupNorm");
    }
    context.set_output(0, std::move(y));
    context.set_output(1, std::move(mean));
    context.set_output(2, std::move(inverse));
  };
}

void group_norm_grad(KernelContext& context) {
  const Tensor &dy = context.input(0), &x = context.input(1), &scale = context.input(2), &mean = context.input(3),
               &inverse = context.input(4);
  check_has_channels("GroupNormGrad: x", x.shape());
  check_tensor("GroupNormGrad: dy", dy, x.dtype(), x.shape());
  const ChannelGroups g = channel_groups(x.shape(), mean.shape());
  const Shape channels{x.shape()[1]};
  check_tensor("GroupNormGrad: scale", scale, own_type(x), channels);
  check_tensor("GroupNormGrad: mean", mean, own_type(x), Shape{g.examples, g.groups});
  check_tensor("GroupNormGrad: inverse_deviation", inverse, own_type(x), mean.shape());
  Gradients out{context.allocate(x.dtype(), x.shape()), context.allocate(own_type(x), channels),
                context.allocate(own_type(x), channels)};
  if (x.num_elements() > 0) {
    Tensor partial =
        context.allocate(DType::u8, Shape{g.examples * channels[0] * static_cast<std::int64_t>(kNormPartialBytes)});
    check_cuda(launch_group_norm_grad(group_launch(g, x, scale), dy.raw(), mean.raw(), inverse.raw(),
                                      out.dx.mutable_raw(), out.dscale.mutable_raw(), out.doffset.mutable_raw(),
                                      partial.mutable_raw(), stream_of(context)),
               "GroupNormGrad");
  } else {
    clear(context, out.dscale, "GroupNormGrad");
    clear(context, out.doffset, "GroupNormGrad");
  }
  set_gradients(context, std::move(out));
}

}  // namespace

void register_cuda_norm_kernels(KernelRegistry& registry) {
  const auto floating = {DType::f32, DType::f64, DType::f16, DType::bf16};
  add_cuda(registry, "BatchNorm", floating, make_batch_norm);
  add_cuda(registry, "BatchNormInference", floating, make_batch_norm_inference);
  add_cuda(registry, "BatchNormGrad", floating, make_batch_norm_grad);
  add_cuda(registry, "LayerNorm", floating, make_layer_norm);
  add_cuda(registry, "LayerNormGrad", floating, layer_norm_grad);
  add_cuda(registry, "RMSNorm", floating, make_rms_norm);
  add_cuda(registry, "RMSNormGrad", floating, rms_norm_grad);
  add_cuda(registry, "GroupNorm", floating, make_group_norm);
  add_cuda(registry, "GroupNormGrad", floating, group_norm_grad);
}

}  // namespace troupe
