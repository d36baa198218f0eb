// A library of ops of one's own: sigmoid(relu(x)) in one pass over x, and its gradient.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include <troupe/graph/builder/math.hpp>
#include <troupe/kernels/op_library.hpp>

namespace {

using namespace troupe;

// y = 1 / (1 + exp(-max(x, 0))).
template <class T>
void relu_sigmoid(const T* x, T* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = T{1} / (T{1} + std::exp(-std::max(x[i], T{0})));
}

// dx = dy y (1 - y) where x > 0, else 0.
template <class T>
void relu_sigmoid_grad(const T* dy, const T* x, const T* y, T* dx, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) dx[i] = x[i] > T{0} ? dy[i] * y[i] * (T{1} - y[i]) : T{0};
}

// Runs loop(first, count) for parts of the elements, on the threads of the device.
template <class Loop>
void in_parts(KernelContext& context, std::int64_t elements, const Loop& loop) {
  context.parallelism().parallel_for(elements, 16 * 1024,
                                     [&](std::int64_t begin, std::int64_t end) { loop(begin, end - begin); });
}

template <class T>
Kernel make_relu_sigmoid(const KernelInit&) {
  return [](KernelContext& context) {
    const Tensor& x = context.input(0);
    Tensor y = context.allocate(x.dtype(), x.shape());
    in_parts(context, x.num_elements(),
             [x = x.data<T>(), y = y.mutable_data<T>()](std::int64_t first, std::int64_t count) {
               relu_sigmoid(x + first, y + first, count);
             });
    context.set_output(0, std::move(y));
  };
}

template <class T>
Kernel make_relu_sigmoid_grad(const KernelInit&) {
  return [](KernelContext& context) {
    const Tensor &dy = context.input(0), &x = context.input(1), &y = context.input(2);
    if (dy.shape() != x.shape() || y.shape() != x.shape())  // where graphs do not know shapes, or not all
      invalid_argument("dy is {}, x {} and y {}", dy.shape().to_string(), x.shape().to_string(), y.shape().to_string());
    Tensor dx = context.allocate(x.dtype(), x.shape());
    in_parts(context, x.num_elements(),
             [dy = dy.data<T>(), x = x.data<T>(), y = y.data<T>(), dx = dx.mutable_data<T>()](std::int64_t first,
                                                                                              std::int64_t count) {
               relu_sigmoid_grad(dy + first, x + first, y + first, dx + first, count);
             });
    context.set_output(0, std::move(dx));
  };
}

// All inputs and the output have one shape.
void same_shape(ShapeContext& context) {
  Shape shape = context.input(0);
  for (int i = 1; i < context.num_inputs(); ++i) {
    const auto merged = shape.merged(context.input(i));
    if (!merged) invalid_argument("input {} is {}, but input 0 {}", i, context.input(i).to_string(), shape.to_string());
    shape = *merged;
  }
  context.set_output(0, shape);
}

void relu_sigmoid_gradient(GradientContext& context) {
  context.set(0, add_op("ReluSigmoidGrad", {context.grad(), context.input(0), context.output(0)}));
}

// Gradients of gradients: dx is linear in dy, and its derivative by y is dy (1 - 2 y) where x > 0.
void relu_sigmoid_grad_gradient(GradientContext& context) {
  const Output ddx = context.grad(), dy = context.input(0), x = context.input(1), y = context.input(2);
  context.set(0, add_op("ReluSigmoidGrad", {ddx, x, y}));
  context.set(2, select(greater(x, zeros_like(x)), ddx * dy * (1.0 - 2.0 * y), zeros_like(y)));
}

void add_ops(OpLibrary& library) {
  const std::vector<DType> types = {DType::f32, DType::f64};
  library.add_op(Op("ReluSigmoid")
                     .input("x", "T")
                     .output("y", "T")
                     .type("T", types)
                     .shape(same_shape)
                     .gradient(relu_sigmoid_gradient));
  library.add_op(Op("ReluSigmoidGrad")
                     .input("dy", "T")
                     .input("x", "T")
                     .input("y", "T")
                     .output("dx", "T")
                     .type("T", types)
                     .shape(same_shape)
                     .gradient(relu_sigmoid_grad_gradient));
  library.add_kernel({"ReluSigmoid", "CPU", {DType::f32}, make_relu_sigmoid<float>});
  library.add_kernel({"ReluSigmoid", "CPU", {DType::f64}, make_relu_sigmoid<double>});
  library.add_kernel({"ReluSigmoidGrad", "CPU", {DType::f32}, make_relu_sigmoid_grad<float>});
  library.add_kernel({"ReluSigmoidGrad", "CPU", {DType::f64}, make_relu_sigmoid_grad<double>});
}

}  // namespace

TROUPE_OP_LIBRARY("relu_sigmoid", "1.0", add_ops)
