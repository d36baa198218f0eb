// Attention and AttentionGrad: checks. Twin of kernels/cpu/attention_kernels.cpp.
#include <troupe/devices/cuda/cuda_error.hpp>
#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cuda/attention_launch.hpp>
#include <troupe/kernels/cuda/elementwise.hpp>

namespace troupe {
namespace {

DType sum_type(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

AttentionLaunch attention_launch(KernelContext& context, const char* op, const AttentionSizes& options) {
  const Tensor &q = context.input(0), &k = context.input(1), &v = context.input(2), &mask = context.input(3);
  AttentionLaunch l{.dtype = q.dtype(),
                    .sizes = attention_sizes(op, options, q.shape(), k.shape(), v.shape()),
                    .q = q.raw(),
                    .k = k.raw(),
                    .v = v.raw()};
  if (!has_no_mask(mask.shape()))
    l.mask = {mask.raw(), mask.dtype() == DType::boolean, mask_geometry(op, l.sizes, q.shape(), mask.shape())};
  return l;
}

void attention_forward(KernelContext& context, const AttentionSizes& options) {
  const AttentionLaunch l = attention_launch(context, "Attention", options);
  const Shape shape = context.input(0).shape();
  Tensor y = context.allocate(l.dtype, attended_shape(shape, context.input(2).shape())),
         sums = context.allocate(sum_type(l.dtype), shape.sub(0, shape.rank() - 1));
  if (sums.num_elements() > 0)
    check_cuda(launch_attention(l, y.mutable_raw(), sums.mutable_raw(), cuda_device(context).stream()), "Attention");
  context.set_output(0, std::move(y));
  context.set_output(1, std::move(sums));
}

void attention_backward(KernelContext& context, const AttentionSizes& options, bool mask_gradient) {
  constexpr const char* kOp = "AttentionGrad";
  const Tensor &q = context.input(0), &k = context.input(1), &v = context.input(2), &mask = context.input(3),
               &sums = context.input(5);
  const AttentionLaunch forward = attention_launch(context, kOp, options);
  const Shape result = attended_shape(q.shape(), v.shape());
  check_tensor("AttentionGrad: y", context.input(4), q.dtype(), result);
  check_tensor("AttentionGrad: log_sums", sums, sum_type(q.dtype()), q.shape().sub(0, q.shape().rank() - 1));
  check_tensor("AttentionGrad: dy", context.input(6), q.dtype(), result);
  const bool wanted = mask_gradient && forward.mask.data && !forward.mask.boolean;
  Tensor dq = context.allocate(q.dtype(), q.shape()), dk = context.allocate(k.dtype(), k.shape()),
         dv = context.allocate(v.dtype(), v.shape()),
         dmask = context.allocate(mask.dtype(), wanted ? mask.shape() : Shape{0});
  if (sums.num_elements() == 0) {
    for (Tensor* t : {&dq, &dk, &dv, &dmask}) clear(context, *t, kOp);
  } else {
    Tensor deltas = context.allocate(sums.dtype(), sums.shape());
    const AttentionGradLaunch l{.forward = forward,
                                .y = context.input(4).raw(),
                                .log_sums = sums.raw(),
                                .dy = context.input(6).raw(),
                                .deltas = deltas.mutable_raw(),
                                .dq = dq.mutable_raw(),
                                .dk = dk.mutable_raw(),
                                .dv = dv.mutable_raw(),
                                .dmask = wanted ? dmask.mutable_raw() : nullptr,
                                .mask_elements = dmask.num_elements()};
    check_cuda(launch_attention_grad(l, cuda_device(context).stream()), kOp);
  }
  context.set_output(0, std::move(dq));
  context.set_output(1, std::move(dk));
  context.set_output(2, std::move(dv));
  context.set_output(3, std::move(dmask));
}

}  // namespace

void register_cuda_attention_kernels(KernelRegistry& registry) {
  add_cuda(registry, "Attention", kFloatDTypes, [](const KernelInit& init) -> Kernel {
    return [s = attention_options(init.attributes)](KernelContext& c) { attention_forward(c, s); };
  });
  add_cuda(registry, "AttentionGrad", kFloatDTypes, [](const KernelInit& init) -> Kernel {
    return [s = attention_options(init.attributes), mask = init.attributes.boolean("mask_gradient")](KernelContext& c) {
      attention_backward(c, s, mask);
    };
  });
}

}  // namespace troupe
