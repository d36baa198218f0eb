// Gradient functions of the ops of graph/ops/nn.cpp.
#pragma once

#include <troupe/graph/gradients/autodiff.hpp>

namespace troupe::backward {

void conv2d(GradientContext& c);
void conv2d_backprop_input(GradientContext& c);
void conv2d_backprop_filter(GradientContext& c);
void max_pool(GradientContext& c);
void avg_pool(GradientContext& c);
void avg_pool_grad(GradientContext& c);
void dropout(GradientContext& c);

}  // namespace troupe::backward
