// Gradients of gradients: what a ...Grad op computes with a kernel of its own is composed of differentiable ops, which
// are then differentiated. So second derivatives hold all intermediate values; first ones do not.
#pragma once

#include <functional>

#include <troupe/graph/ops/gradients.hpp>

namespace troupe {

// Differentiates what `compose` makes of the inputs, which must be what the op makes of them: one for each output, or
// an invalid Output, or none, where no gradient flows back.
void gradient_by_composition(GradientContext& c, const std::function<Outputs(const Outputs&)>& compose);

// The normalisations and their statistics, and their gradient ops, of which statistics are inputs.
void batch_norm_gradient(GradientContext& c);
void group_norm_gradient(GradientContext& c);
void layer_norm_gradient(GradientContext& c);
void rms_norm_gradient(GradientContext& c);
void batch_norm_grad_gradient(GradientContext& c);
void group_norm_grad_gradient(GradientContext& c);
void layer_norm_grad_gradient(GradientContext& c);
void rms_norm_grad_gradient(GradientContext& c);

// That of Attention, with all scores in memory.
void attention_grad_gradient(GradientContext& c);

void cumulative_product_grad_gradient(GradientContext& c);
void cumulative_logsumexp_grad_gradient(GradientContext& c);

}  // namespace troupe
