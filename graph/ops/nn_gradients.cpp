#include "troupe/graph/ops/nn_gradients.hpp"

#include <troupe/graph/builder/builder.hpp>

namespace troupe::backward {
namespace {

Output sum_last(Output x) { return sum(x, {-1}, {.keep_dims = true}); }

// The attributes of a window op, without its dtype.
Attributes window(GradientContext& c) {
  Attributes out;
  for (const char* name : {"ksize", "strides", "padding"})
    if (c.attributes().has(name)) out.set(name, c.attributes().all().find(name)->second);
  return out;
}

// Shared by both cross entropies: d loss/d logits is output 1, and d output 1/d logits is the softmax's derivative.
void logits_gradient(GradientContext& c) {
  Outputs parts;
  if (c.has_grad(0)) parts.push_back(expand_dims(c.grad(0), 1) * c.output(1));
  if (c.has_grad(1)) parts.push_back(add_op("SoftmaxGrad", {c.grad(1), troupe::softmax(c.input(0))}));
  c.set(0, parts.size() == 1 ? parts[0] : parts[0] + parts[1]);
}

}  // namespace

void softmax(GradientContext& c) { c.set(0, add_op("SoftmaxGrad", {c.grad(), c.output(0)})); }
void log_softmax(GradientContext& c) { c.set(0, add_op("LogSoftmaxGrad", {c.grad(), c.output(0)})); }

// dx = y (dy - sum(dy y)).
void softmax_grad(GradientContext& c) {
  const Output g = c.grad();
  const Output dy = c.input(0);
  const Output y = c.input(1);
  if (c.needs(0)) c.set(0, add_op("SoftmaxGrad", {g, y}));
  if (!c.needs(1)) return;
  const Output subtracted = dy * sum_last(g * y);
  c.set(1, g * (dy - sum_last(dy * y)) - subtracted);
}

// dx = dy - exp(y) sum(dy).
void log_softmax_grad(GradientContext& c) {
  const Output g = c.grad();
  const Output y = c.input(1);
  if (c.needs(0)) c.set(0, g - sum_last(g * exp(y)));
  if (!c.needs(1)) return;
  const Output total = sum_last(c.input(0));
  const Output softmax = exp(y);
  c.set(1, -g * softmax * total);
}

void sparse_cross_entropy(GradientContext& c) { logits_gradient(c); }

void cross_entropy(GradientContext& c) {
  if (c.needs(0)) logits_gradient(c);
  if (!c.needs(1)) return;
  Outputs parts;  // loss = -sum(labels log_softmax(logits)), backprop = softmax(logits) - labels
  if (c.has_grad(0)) {
    const Output logarithms = troupe::log_softmax(c.input(0));
    parts.push_back(-expand_dims(c.grad(0), 1) * logarithms);
  }
  if (c.has_grad(1)) parts.push_back(-c.grad(1));
  c.set(1, parts.size() == 1 ? parts[0] : parts[0] + parts[1]);
}

void sigmoid_cross_entropy(GradientContext& c) {
  const Output g = c.grad();
  if (c.needs(0)) c.set(0, g * (sigmoid(c.input(0)) - c.input(1)));
  if (c.needs(1)) c.set(1, -g * c.input(0));
}

// The convolution is linear in x and in the filter, and so are its two gradients in their inputs: the gradient of each
// consists of the others.
void conv2d(GradientContext& c) {
  const Output g = c.grad();
  if (c.needs(0)) c.set(0, add_op("Conv2DBackpropInput", {c.input(0), c.input(1), g}, window(c)));
  if (c.needs(1)) c.set(1, add_op("Conv2DBackpropFilter", {c.input(0), c.input(1), g}, window(c)));
}
void conv2d_backprop_input(GradientContext& c) {
  const Output g = c.grad();
  if (c.needs(1)) c.set(1, add_op("Conv2DBackpropFilter", {g, c.input(1), c.input(2)}, window(c)));
  if (c.needs(2)) c.set(2, add_op("Conv2D", {g, c.input(1)}, window(c)));
}
void conv2d_backprop_filter(GradientContext& c) {
  const Output g = c.grad();
  if (c.needs(0)) c.set(0, add_op("Conv2DBackpropInput", {c.input(0), g, c.input(2)}, window(c)));
  if (c.needs(2)) c.set(2, add_op("Conv2D", {c.input(0), g}, window(c)));
}

void max_pool(GradientContext& c) { c.set(0, add_op("MaxPoolGrad", {c.input(0), c.output(0), c.grad()}, window(c))); }
void avg_pool(GradientContext& c) { c.set(0, add_op("AvgPoolGrad", {c.input(0), c.grad()}, window(c))); }
void avg_pool_grad(GradientContext& c) {
  if (c.needs(1)) c.set(1, add_op("AvgPool", {c.grad()}, window(c)));
}

void dropout(GradientContext& c) { c.set(0, c.grad(0) * c.output(1)); }

}  // namespace troupe::backward
