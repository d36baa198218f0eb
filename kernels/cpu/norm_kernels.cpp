// Kernels of normalisation.
#include <troupe/kernels/common/activation.hpp>
#include <troupe/kernels/cpu/batch_norm.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/group_norm.hpp>
#include <troupe/kernels/cpu/layer_norm.hpp>
#include <troupe/kernels/cpu/rms_norm.hpp>

namespace troupe {
namespace {

// Shape of per-row values: x's shape without its last dimension.
Shape rows_shape(const Shape& x) { return x.rank() < 1 ? x : x.sub(0, x.rank() - 1); }
Shape channels_shape(const Shape& x) { return x.rank() < 1 ? x : Shape{x[-1]}; }

DType own_type(const Tensor& x) { return x.dtype() == DType::f64 ? DType::f64 : DType::f32; }

bool has_relu(const Attributes& attributes) {
  return parse_activation(attributes.string("activation")) == FusedActivation::relu;
}

Kernel make_batch_norm(const KernelInit& init) {
  return [epsilon = init.attributes.real("epsilon"), relu = has_relu(init.attributes)](KernelContext& ctx) {
    const Tensor& x = ctx.input(0);
    const auto statistic = [&] { return ctx.allocate(own_type(x), channels_shape(x.shape())); };
    Tensor y = ctx.allocate(x.dtype(), x.shape()), mean = statistic(), variance = statistic(), inverse = statistic();
    batch_norm(ctx.parallelism(), x, {ctx.input(1), ctx.input(2), relu}, epsilon, y, {mean, variance, inverse});
    ctx.set_output(0, std::move(y));
    ctx.set_output(1, std::move(mean));
    ctx.set_output(2, std::move(variance));
    ctx.set_output(3, std::move(inverse));
  };
}

Kernel make_batch_norm_inference(const KernelInit& init) {
  return [epsilon = init.attributes.real("epsilon"), relu = has_relu(init.attributes)](KernelContext& ctx) {
    const Tensor& x = ctx.input(0);
    Tensor y = ctx.allocate(x.dtype(), x.shape());
    batch_norm_inference(ctx.parallelism(), x, {ctx.input(1), ctx.input(2), relu}, ctx.input(3), ctx.input(4), epsilon,
                         y);
    ctx.set_output(0, std::move(y));
  };
}

// Sets the gradients of x (output 0), scale and offset.
void set_gradients(KernelContext& ctx, Tensor dx, Tensor dscale, Tensor doffset) {
  ctx.set_output(0, std::move(dx));
  ctx.set_output(1, std::move(dscale));
  ctx.set_output(2, std::move(doffset));
}

Kernel make_batch_norm_grad(const KernelInit& init) {
  return [relu = has_relu(init.attributes)](KernelContext& ctx) {
    const Tensor& x = ctx.input(1);
    const Shape channels = channels_shape(x.shape());
    Tensor dx = ctx.allocate(x.dtype(), x.shape());
    Tensor dscale = ctx.allocate(own_type(x), channels), doffset = ctx.allocate(own_type(x), channels);
    batch_norm_grad(ctx.parallelism(), ctx.input(0), x, {ctx.input(2), ctx.input(3), relu}, ctx.input(4), ctx.input(5),
                    dx, dscale, doffset);
    set_gradients(ctx, std::move(dx), std::move(dscale), std::move(doffset));
  };
}

Kernel make_layer_norm(const KernelInit& init) {
  return [epsilon = init.attributes.real("epsilon")](KernelContext& ctx) {
    const Tensor& x = ctx.input(0);
    const Shape rows = rows_shape(x.shape());
    Tensor y = ctx.allocate(x.dtype(), x.shape()), mean = ctx.allocate(own_type(x), rows),
           inverse = ctx.allocate(own_type(x), rows);
    layer_norm(ctx.parallelism(), x, ctx.input(1), ctx.input(2), epsilon, y, mean, inverse);
    ctx.set_output(0, std::move(y));
    ctx.set_output(1, std::move(mean));
    ctx.set_output(2, std::move(inverse));
  };
}

void layer_norm_grad_kernel(KernelContext& ctx) {
  const Tensor& x = ctx.input(1);
  const Shape channels = channels_shape(x.shape());
  Tensor dx = ctx.allocate(x.dtype(), x.shape());
  Tensor dscale = ctx.allocate(own_type(x), channels), doffset = ctx.allocate(own_type(x), channels);
  layer_norm_grad(ctx.parallelism(), ctx.input(0), x, ctx.input(2), ctx.input(3), ctx.input(4), dx, dscale, doffset);
  set_gradients(ctx, std::move(dx), std::move(dscale), std::move(doffset));
}

Kernel make_group_norm(const KernelInit& init) {
  return [given = init.attributes.integer("groups"), epsilon = init.attributes.real("epsilon")](KernelContext& ctx) {
    const Tensor& x = ctx.input(0);
    const std::int64_t groups = checked_groups(given, x.shape());
    const auto statistic = [&] { return ctx.allocate(own_type(x), Shape{x.shape()[0], groups}); };
    Tensor y = ctx.allocate(x.dtype(), x.shape()), mean = statistic(), inverse = statistic();
    group_norm(ctx.parallelism(), x, ctx.input(1), ctx.input(2), epsilon, y, mean, inverse);
    ctx.set_output(0, std::move(y));
    ctx.set_output(1, std::move(mean));
    ctx.set_output(2, std::move(inverse));
  };
}

void group_norm_grad_kernel(KernelContext& ctx) {
  const Tensor &x = ctx.input(1), &scale = ctx.input(2);
  Tensor dx = ctx.allocate(x.dtype(), x.shape());
  Tensor dscale = ctx.allocate(own_type(x), scale.shape()), doffset = ctx.allocate(own_type(x), scale.shape());
  group_norm_grad(ctx.parallelism(), ctx.input(0), x, scale, ctx.input(3), ctx.input(4), dx, dscale, doffset);
  set_gradients(ctx, std::move(dx), std::move(dscale), std::move(doffset));
}

Kernel make_rms_norm(const KernelInit& init) {
  return [epsilon = init.attributes.real("epsilon")](KernelContext& ctx) {
    const Tensor& x = ctx.input(0);
    Tensor y = ctx.allocate(x.dtype(), x.shape()), inverse = ctx.allocate(own_type(x), rows_shape(x.shape()));
    rms_norm(ctx.parallelism(), x, ctx.input(1), epsilon, y, inverse);
    ctx.set_output(0, std::move(y));
    ctx.set_output(1, std::move(inverse));
  };
}

void rms_norm_grad_kernel(KernelContext& ctx) {
  const Tensor& x = ctx.input(1);
  Tensor dx = ctx.allocate(x.dtype(), x.shape()), dscale = ctx.allocate(own_type(x), channels_shape(x.shape()));
  rms_norm_grad(ctx.parallelism(), ctx.input(0), x, ctx.input(2), ctx.input(3), dx, dscale);
  ctx.set_output(0, std::move(dx));
  ctx.set_output(1, std::move(dscale));
}

}  // namespace

void register_norm_kernels(KernelRegistry& registry) {
  const std::vector<DType> types{DType::f32, DType::f64, DType::f16, DType::bf16};
  registry.add({"BatchNorm", "CPU", types, make_batch_norm});
  registry.add({"BatchNormInference", "CPU", types, make_batch_norm_inference});
  registry.add({"BatchNormGrad", "CPU", types, make_batch_norm_grad});
  registry.add({"LayerNorm", "CPU", types, make_layer_norm});
  registry.add({"LayerNormGrad", "CPU", types, [](const KernelInit&) -> Kernel { return layer_norm_grad_kernel; }});
  registry.add({"GroupNorm", "CPU", types, make_group_norm});
  registry.add({"GroupNormGrad", "CPU", types, [](const KernelInit&) -> Kernel { return group_norm_grad_kernel; }});
  registry.add({"RMSNorm", "CPU", types, make_rms_norm});
  registry.add({"RMSNormGrad", "CPU", types, [](const KernelInit&) -> Kernel { return rms_norm_grad_kernel; }});
}

}  // namespace troupe
