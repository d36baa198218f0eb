// Gradient functions of the ops of graph/ops/nn.cpp.
#pragma once

#include <troupe/graph/gradients/autodiff.hpp>

namespace troupe::backward {

void softmax(GradientContext& c);
void log_softmax(GradientContext& c);
void softmax_grad(GradientContext& c);
void log_softmax_grad(GradientContext& c);
void sparse_cross_entropy(GradientContext& c);
void cross_entropy(GradientContext& c);
void sigmoid_cross_entropy(GradientContext& c);
void conv2d(GradientContext& c);
void conv2d_backprop_input(GradientContext& c);
void conv2d_backprop_filter(GradientContext& c);
void max_pool(GradientContext& c);
void avg_pool(GradientContext& c);
void avg_pool_grad(GradientContext& c);
void dropout(GradientContext& c);

}  // namespace troupe::backward
