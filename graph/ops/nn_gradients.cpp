#include "troupe/graph/ops/nn_gradients.hpp"

#include <troupe/graph/builder/builder.hpp>

namespace troupe::backward {
namespace {

// The attributes of a window op, without its dtype.
Attributes window(GradientContext& c) {
  Attributes out;
  for (const char* name : {"ksize", "strides", "padding"})
    if (c.attributes().has(name)) out.set(name, c.attributes().all().find(name)->second);
  return out;
}

}  // namespace

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
