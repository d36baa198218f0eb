// Softmax and the cross entropies; f32 and f64.
//
// SparseSoftmaxCrossEntropy does not check its labels on the host, which would wait for the GPU in every step: the
// kernel detects an invalid label, and the step fails later (devices/cuda/cuda_faults.hpp).
#include <troupe/devices/cuda/cuda_error.hpp>
#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cuda/cuda_kernels.hpp>
#include <troupe/kernels/cuda/softmax_launch.hpp>

namespace troupe {
namespace {

SoftmaxRows rows_of(std::string_view what, const Tensor& x) {
  if (x.shape().rank() < 1) invalid_argument("{} must have at least one dimension, but is a scalar", what);
  const std::int64_t width = x.shape()[-1];
  return {x.dtype(), width == 0 ? 0 : x.num_elements() / width, width};
}

template <bool kLogarithm>
void softmax(KernelContext& context) {
  const Tensor& x = context.input(0);
  const SoftmaxRows rows = rows_of(kLogarithm ? "LogSoftmax: x" : "Softmax: x", x);
  Tensor out = context.allocate(x.dtype(), x.shape());
  if (rows.count > 0)
    check_cuda(launch_softmax(rows, kLogarithm, x.raw(), out.mutable_raw(), cuda_device(context).stream()),
               kLogarithm ? "LogSoftmax" : "Softmax");
  context.set_output(0, std::move(out));
}

template <bool kLogarithm>
void softmax_grad(KernelContext& context) {
  const Tensor &dy = context.input(0), &y = context.input(1);
  const SoftmaxRows rows = rows_of(kLogarithm ? "LogSoftmaxGrad: y" : "SoftmaxGrad: y", y);
  check_tensor(kLogarithm ? "LogSoftmaxGrad: dy" : "SoftmaxGrad: dy", dy, y.dtype(), y.shape());
  Tensor dx = context.allocate(y.dtype(), y.shape());
  if (rows.count > 0)
    check_cuda(
        launch_softmax_grad(rows, kLogarithm, dy.raw(), y.raw(), dx.mutable_raw(), cuda_device(context).stream()),
        kLogarithm ? "LogSoftmaxGrad" : "SoftmaxGrad");
  context.set_output(0, std::move(dx));
}

Error no_class(const CudaFault& fault) {
  return {
      Code::out_of_range,
      fmt::format(
          "SparseSoftmaxCrossEntropy: label {} in row {} of the batch is out of range: there are {} classes, 0 to {}",
          fault.value, fault.element, fault.bound, fault.bound - 1)};
}

void sparse_cross_entropy(KernelContext& context) {
  constexpr const char* kOp = "SparseSoftmaxCrossEntropy";
  const Tensor &logits = context.input(0), &labels = context.input(1);
  check_rank("the logits", logits.shape(), 2);
  const SoftmaxRows rows{logits.dtype(), logits.shape()[0], logits.shape()[1]};
  check_tensor("SparseSoftmaxCrossEntropy: labels", labels, labels.dtype(), Shape{rows.count});
  if (labels.dtype() != DType::i32 && labels.dtype() != DType::i64)
    invalid_argument("SparseSoftmaxCrossEntropy: labels must be i32 or i64, but are {}", name(labels.dtype()));
  if (rows.width == 0 && rows.count > 0)
    fail(Code::out_of_range, "SparseSoftmaxCrossEntropy: there are {} labels but no classes", rows.count);
  Tensor loss = context.allocate(logits.dtype(), Shape{rows.count});
  Tensor backprop = context.allocate(logits.dtype(), logits.shape());
  if (rows.count > 0)
    check_cuda(launch_sparse_cross_entropy(rows, logits.raw(), labels.raw(), labels.dtype() == DType::i64,
                                           cuda_device(context).fault_site(no_class), loss.mutable_raw(),
                                           backprop.mutable_raw(), cuda_device(context).stream()),
               kOp);
  context.set_output(0, std::move(loss));
  context.set_output(1, std::move(backprop));
}

void cross_entropy(KernelContext& context) {
  constexpr const char* kOp = "SoftmaxCrossEntropy";
  const Tensor &logits = context.input(0), &labels = context.input(1);
  check_rank("the logits", logits.shape(), 2);
  const SoftmaxRows rows{logits.dtype(), logits.shape()[0], logits.shape()[1]};
  check_tensor("SoftmaxCrossEntropy: labels", labels, logits.dtype(), logits.shape());
  Tensor loss = context.allocate(logits.dtype(), Shape{rows.count});
  Tensor backprop = context.allocate(logits.dtype(), logits.shape());
  if (rows.width == 0)
    clear(context, loss, kOp);
  else if (rows.count > 0)
    check_cuda(launch_cross_entropy(rows, logits.raw(), labels.raw(), loss.mutable_raw(), backprop.mutable_raw(),
                                    cuda_device(context).stream()),
               kOp);
  context.set_output(0, std::move(loss));
  context.set_output(1, std::move(backprop));
}

void sigmoid_cross_entropy(KernelContext& context) {
  const Tensor &logits = context.input(0), &labels = context.input(1);
  check_tensor("SigmoidCrossEntropy: labels", labels, logits.dtype(), logits.shape());
  Tensor out = context.allocate(logits.dtype(), logits.shape());
  if (out.num_elements() > 0)
    check_cuda(launch_sigmoid_cross_entropy(logits.dtype(), out.num_elements(), logits.raw(), labels.raw(),
                                            out.mutable_raw(), cuda_device(context).stream()),
               "SigmoidCrossEntropy");
  context.set_output(0, std::move(out));
}

}  // namespace

void register_cuda_softmax_kernels(KernelRegistry& registry) {
  const auto real = {DType::f32, DType::f64};
  add_cuda(registry, "Softmax", real, softmax<false>);
  add_cuda(registry, "LogSoftmax", real, softmax<true>);
  add_cuda(registry, "SoftmaxGrad", real, softmax_grad<false>);
  add_cuda(registry, "LogSoftmaxGrad", real, softmax_grad<true>);
  add_cuda(registry, "SparseSoftmaxCrossEntropy", real, sparse_cross_entropy);
  add_cuda(registry, "SoftmaxCrossEntropy", real, cross_entropy);
  add_cuda(registry, "SigmoidCrossEntropy", real, sigmoid_cross_entropy);
}

}  // namespace troupe
