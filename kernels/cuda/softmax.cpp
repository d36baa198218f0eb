// Softmax and the cross entropies; f32, f64, f16, bf16. Along another axis than the last, tensors are transposed first.
//
// SparseSoftmaxCrossEntropy does not check its labels on the host, which would wait for the GPU in every step: the
// kernel detects an invalid label, and the step fails later (devices/cuda/cuda_faults.hpp).
#include <troupe/devices/cuda/cuda_error.hpp>
#include <troupe/kernels/common/array.hpp>
#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cuda/cuda_kernels.hpp>
#include <troupe/kernels/cuda/softmax_launch.hpp>

namespace troupe {
namespace {

SoftmaxRows rows_of(const Tensor& x) {
  const std::int64_t width = x.shape()[-1];
  return {x.dtype(), width == 0 ? 0 : x.num_elements() / width, width};
}

int checked_class_axis(std::string_view what, const Tensor& x, std::int64_t axis) {
  if (x.shape().rank() < 1) invalid_argument("{} must have at least one dimension, but is a scalar", what);
  return checked_axis(axis, x.shape().rank());
}

// x with the axis moved to the end, or back. The kernels take rows along the last axis.
Tensor moved(Device& device, const Tensor& x, int axis, bool back) {
  const int rank = x.shape().rank();
  if (axis == rank - 1) return x;
  std::vector<std::int64_t> perm;
  for (int d = 0; d < rank; ++d)
    if (back)
      perm.push_back(d < axis ? d : d == axis ? rank - 1 : d - 1);
    else
      perm.push_back(d < axis ? d : d == rank - 1 ? axis : d + 1);
  return transpose(device, x, perm);
}

Kernel make_softmax(const KernelInit& init, bool logarithm) {
  return [axis = init.attributes.integer("axis"), logarithm](KernelContext& context) {
    const char* op = logarithm ? "LogSoftmax" : "Softmax";
    const int along = checked_class_axis(logarithm ? "LogSoftmax: x" : "Softmax: x", context.input(0), axis);
    const Tensor x = moved(context.device(), context.input(0), along, false);
    const SoftmaxRows rows = rows_of(x);
    Tensor out = context.allocate(x.dtype(), x.shape());
    if (rows.count > 0)
      check_cuda(launch_softmax(rows, logarithm, x.raw(), out.mutable_raw(), cuda_device(context).stream()), op);
    context.set_output(0, moved(context.device(), out, along, true));
  };
}

Kernel make_softmax_grad(const KernelInit& init, bool logarithm) {
  return [axis = init.attributes.integer("axis"), logarithm](KernelContext& context) {
    const char* op = logarithm ? "LogSoftmaxGrad" : "SoftmaxGrad";
    const Tensor& given = context.input(1);
    const int along = checked_class_axis(logarithm ? "LogSoftmaxGrad: y" : "SoftmaxGrad: y", given, axis);
    check_tensor(logarithm ? "LogSoftmaxGrad: dy" : "SoftmaxGrad: dy", context.input(0), given.dtype(), given.shape());
    const Tensor dy = moved(context.device(), context.input(0), along, false);
    const Tensor y = moved(context.device(), given, along, false);
    const SoftmaxRows rows = rows_of(y);
    Tensor dx = context.allocate(y.dtype(), y.shape());
    if (rows.count > 0)
      check_cuda(
          launch_softmax_grad(rows, logarithm, dy.raw(), y.raw(), dx.mutable_raw(), cuda_device(context).stream()), op);
    context.set_output(0, moved(context.device(), dx, along, true));
  };
}

Error no_class(const CudaFault& fault) {
  return {
      Code::out_of_range,
      fmt::format(
          "SparseSoftmaxCrossEntropy: label {} in row {} of the batch is out of range: there are {} classes, 0 to {}",
          fault.value, fault.element, fault.bound, fault.bound - 1)};
}

Kernel make_sparse_cross_entropy(const KernelInit& init) {
  const Attributes& a = init.attributes;
  return [axis = a.integer("axis"), ignored = a.integer("ignore_index"),
          smoothing = a.real("label_smoothing")](KernelContext& context) {
    constexpr const char* kOp = "SparseSoftmaxCrossEntropy";
    const int along = checked_class_axis("SparseSoftmaxCrossEntropy: logits", context.input(0), axis);
    const Shape each = context.input(0).shape().without(along);
    const Tensor& labels = context.input(1);
    check_tensor("SparseSoftmaxCrossEntropy: labels", labels, labels.dtype(), each);
    if (labels.dtype() != DType::i32 && labels.dtype() != DType::i64)
      invalid_argument("SparseSoftmaxCrossEntropy: labels must be i32 or i64, but are {}", name(labels.dtype()));
    const Tensor logits = moved(context.device(), context.input(0), along, false);
    const SoftmaxRows rows = rows_of(logits);
    if (rows.width == 0 && labels.num_elements() > 0)
      fail(Code::out_of_range, "SparseSoftmaxCrossEntropy: there are {} labels but no classes", labels.num_elements());
    Tensor loss = context.allocate(logits.dtype(), each);
    Tensor backprop = context.allocate(logits.dtype(), logits.shape());
    const SoftmaxLabels how{labels.raw(), labels.dtype() == DType::i64, ignored, smoothing};
    if (rows.count > 0)
      check_cuda(launch_sparse_cross_entropy(rows, logits.raw(), how, cuda_device(context).fault_site(no_class),
                                             loss.mutable_raw(), backprop.mutable_raw(), cuda_device(context).stream()),
                 kOp);
    context.set_output(0, std::move(loss));
    context.set_output(1, moved(context.device(), backprop, along, true));
  };
}

Kernel make_cross_entropy(const KernelInit& init) {
  return [axis = init.attributes.integer("axis")](KernelContext& context) {
    constexpr const char* kOp = "SoftmaxCrossEntropy";
    const Tensor& given = context.input(0);
    const int along = checked_class_axis("SoftmaxCrossEntropy: logits", given, axis);
    check_tensor("SoftmaxCrossEntropy: labels", context.input(1), given.dtype(), given.shape());
    const Tensor logits = moved(context.device(), given, along, false);
    const Tensor labels = moved(context.device(), context.input(1), along, false);
    const SoftmaxRows rows = rows_of(logits);
    Tensor loss = context.allocate(logits.dtype(), given.shape().without(along));
    Tensor backprop = context.allocate(logits.dtype(), logits.shape());
    if (rows.width == 0)
      clear(context, loss, kOp);
    else if (rows.count > 0)
      check_cuda(launch_cross_entropy(rows, logits.raw(), labels.raw(), loss.mutable_raw(), backprop.mutable_raw(),
                                      cuda_device(context).stream()),
                 kOp);
    context.set_output(0, std::move(loss));
    context.set_output(1, moved(context.device(), backprop, along, true));
  };
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
  const auto real = {DType::f32, DType::f64, DType::f16, DType::bf16};
  for (const bool logarithm : {false, true}) {
    const std::string op = logarithm ? "LogSoftmax" : "Softmax";
    add_cuda(registry, op, real, [logarithm](const KernelInit& init) { return make_softmax(init, logarithm); });
    add_cuda(registry, op + "Grad", real,
             [logarithm](const KernelInit& init) { return make_softmax_grad(init, logarithm); });
  }
  add_cuda(registry, "SparseSoftmaxCrossEntropy", real, make_sparse_cross_entropy);
  add_cuda(registry, "SoftmaxCrossEntropy", real, make_cross_entropy);
  add_cuda(registry, "SigmoidCrossEntropy", real, sigmoid_cross_entropy);
}

}  // namespace troupe
