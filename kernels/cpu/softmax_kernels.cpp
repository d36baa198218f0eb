// Kernels of softmax and the cross entropies.
#include <troupe/kernels/common/movement.hpp>
#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/softmax.hpp>

namespace troupe {
namespace {

using AlongAxis = void (*)(Parallelism&, const Tensor&, std::int64_t, Tensor&);
using GradAlongAxis = void (*)(Parallelism&, const Tensor&, const Tensor&, std::int64_t, Tensor&);

KernelFactory along_axis(AlongAxis function) {
  return [function](const KernelInit& init) -> Kernel {
    return [function, axis = init.attributes.integer("axis")](KernelContext& ctx) {
      const Tensor& x = ctx.input(0);
      Tensor out = ctx.allocate(x.dtype(), x.shape());
      function(ctx.parallelism(), x, axis, out);
      ctx.set_output(0, std::move(out));
    };
  };
}

KernelFactory grad_along_axis(GradAlongAxis function) {
  return [function](const KernelInit& init) -> Kernel {
    return [function, axis = init.attributes.integer("axis")](KernelContext& ctx) {
      const Tensor& a = ctx.input(0);
      Tensor out = ctx.allocate(a.dtype(), a.shape());
      function(ctx.parallelism(), a, ctx.input(1), axis, out);
      ctx.set_output(0, std::move(out));
    };
  };
}

// Calls compute(logits, labels, loss, backprop).
template <class Compute>
void set_loss(KernelContext& ctx, std::int64_t axis, Compute compute) {
  const Tensor& logits = ctx.input(0);
  if (logits.shape().rank() < 1) invalid_argument("the logits must have at least one dimension, but are a scalar");
  Tensor loss = ctx.allocate(logits.dtype(), logits.shape().without(checked_axis(axis, logits.shape().rank())));
  Tensor backprop = ctx.allocate(logits.dtype(), logits.shape());
  compute(logits, ctx.input(1), loss, backprop);
  ctx.set_output(0, std::move(loss));
  ctx.set_output(1, std::move(backprop));
}

Kernel make_sparse_cross_entropy(const KernelInit& init) {
  const Attributes& a = init.attributes;
  return [how = SparseLabels{a.integer("axis"), a.integer("ignore_index"), a.real("label_smoothing")}](
             KernelContext& ctx) {
    set_loss(ctx, how.axis, [&](const Tensor& logits, const Tensor& labels, Tensor& loss, Tensor& backprop) {
      sparse_softmax_cross_entropy(ctx.parallelism(), logits, labels, how, loss, backprop);
    });
  };
}

Kernel make_cross_entropy(const KernelInit& init) {
  return [axis = init.attributes.integer("axis")](KernelContext& ctx) {
    set_loss(ctx, axis, [&](const Tensor& logits, const Tensor& labels, Tensor& loss, Tensor& backprop) {
      softmax_cross_entropy(ctx.parallelism(), logits, labels, axis, loss, backprop);
    });
  };
}

void sigmoid_cross_entropy_kernel(KernelContext& ctx) {
  const Tensor& logits = ctx.input(0);
  Tensor out = ctx.allocate(logits.dtype(), logits.shape());
  sigmoid_cross_entropy(ctx.parallelism(), logits, ctx.input(1), out);
  ctx.set_output(0, std::move(out));
}

}  // namespace

void register_softmax_kernels(KernelRegistry& registry) {
  const auto add = [&](const char* op, KernelFactory make) {
    registry.add({op, "CPU", {DType::f32, DType::f64, DType::f16, DType::bf16}, std::move(make)});
  };
  add("Softmax", along_axis(softmax));
  add("LogSoftmax", along_axis(log_softmax));
  add("SoftmaxGrad", grad_along_axis(softmax_grad));
  add("LogSoftmaxGrad", grad_along_axis(log_softmax_grad));
  add("SparseSoftmaxCrossEntropy", make_sparse_cross_entropy);
  add("SoftmaxCrossEntropy", make_cross_entropy);
  add("SigmoidCrossEntropy", [](const KernelInit&) -> Kernel { return sigmoid_cross_entropy_kernel; });
}

}  // namespace troupe
