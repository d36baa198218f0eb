// The builder API of updates: each function adds an Apply node, or its Sparse form if the gradient is sparse,
// on the device of the variable. `var` and the slots are handles of variables of one shape, `lr` is a scalar
// of their dtype. The nodes have no outputs: what is returned may be used as a control only (see group).
#pragma once

#include <troupe/graph/builder/core.hpp>
#include <troupe/graph/gradients/autodiff.hpp>

namespace troupe {

// var -= lr g.
Output apply_sgd(Output var, Output lr, const Gradient& gradient, Name name = {});

struct MomentumOptions {
  double momentum = 0.9;
  bool nesterov = false;
  Name name{};
};
// accum = momentum accum + g; var -= lr accum, or lr (g + momentum accum) with nesterov.
Output apply_momentum(Output var, Output accum, Output lr, const Gradient& gradient, MomentumOptions options = {});

struct AdagradOptions {
  double epsilon = 1e-7;
  Name name{};
};
// accum += g^2; var -= lr g / (sqrt(accum) + epsilon).
Output apply_adagrad(Output var, Output accum, Output lr, const Gradient& gradient, AdagradOptions options = {});

struct RMSPropOptions {
  double rho = 0.9;
  double momentum = 0;
  double epsilon = 1e-7;
  Name name{};
};
// ms = rho ms + (1 - rho) g^2; mom = momentum mom + lr g / sqrt(ms + epsilon); var -= mom.
Output apply_rmsprop(Output var, Output ms, Output mom, Output lr, const Gradient& gradient,
                     RMSPropOptions options = {});

struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-7;
  Name name{};
};
// t (i64 scalar) is the number of this update, from 1. m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2)
// g^2; var -= lr sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + epsilon).
Output apply_adam(Output var, Output m, Output v, Output lr, Output t, const Gradient& gradient,
                  AdamOptions options = {});

}  // namespace troupe
