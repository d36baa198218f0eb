// Kernels of softmax and the cross entropies.
#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/softmax.hpp>

namespace troupe {
namespace {

using Unary = void (*)(Parallelism&, const Tensor&, Tensor&);
using Binary = void (*)(Parallelism&, const Tensor&, const Tensor&, Tensor&);
using Loss = void (*)(Parallelism&, const Tensor&, const Tensor&, Tensor&, Tensor&);

KernelFactory unary(Unary function) {
  return [function](const KernelInit&) -> Kernel {
    return [function](KernelContext& ctx) {
      const Tensor& x = ctx.input(0);
      Tensor out = ctx.allocate(x.dtype(), x.shape());
      function(ctx.parallelism(), x, out);
      ctx.set_output(0, std::move(out));
    };
  };
}

KernelFactory binary(Binary function) {
  return [function](const KernelInit&) -> Kernel {
    return [function](KernelContext& ctx) {
      const Tensor& a = ctx.input(0);
      Tensor out = ctx.allocate(a.dtype(), a.shape());
      function(ctx.parallelism(), a, ctx.input(1), out);
      ctx.set_output(0, std::move(out));
    };
  };
}

KernelFactory loss(Loss function) {
  return [function](const KernelInit&) -> Kernel {
    return [function](KernelContext& ctx) {
      const Tensor& logits = ctx.input(0);
      check_rank("the logits", logits.shape(), 2);
      Tensor loss = ctx.allocate(logits.dtype(), Shape{logits.shape()[0]});
      Tensor backprop = ctx.allocate(logits.dtype(), logits.shape());
      function(ctx.parallelism(), logits, ctx.input(1), loss, backprop);
      ctx.set_output(0, std::move(loss));
      ctx.set_output(1, std::move(backprop));
    };
  };
}

}  // namespace

void register_softmax_kernels(KernelRegistry& registry) {
  const auto add = [&](const char* op, KernelFactory make) {
    registry.add({op, "CPU", {DType::f32, DType::f64}, std::move(make)});
  };
  add("Softmax", unary(softmax));
  add("LogSoftmax", unary(log_softmax));
  add("SoftmaxGrad", binary(softmax_grad));
  add("LogSoftmaxGrad", binary(log_softmax_grad));
  add("SparseSoftmaxCrossEntropy", loss(sparse_softmax_cross_entropy));
  add("SoftmaxCrossEntropy", loss(softmax_cross_entropy));
  add("SigmoidCrossEntropy", binary(sigmoid_cross_entropy));
}

}  // namespace troupe
