// Loss scaling (Micikevicius et al., "Mixed Precision Training", ICLR 2018): f16 gradients below 2^-24 would vanish, so
// the loss is multiplied by a large scale, and the gradients are divided by it, in the dtype of the variables, before
// use.
//
//   LossScale scale = loss_scale(graph, {});
//   auto gradients = compute_gradients(scale.scaled(loss), variables);
//   Output train = apply_scaled_gradients(graph, optimizers::Adam{}, scale, gradients);
//
// A step with a gradient that is not finite changes no variable, slot or update count, and is counted as skipped. The
// scale then halves; after `growth_interval` good steps in a row it doubles. Scales are powers of two: they change no
// bit of a gradient that neither over- nor underflows. All state is in variables, so a repeated run, or one resumed
// from its variables, gives the same bits.
#pragma once

#include <span>

#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/gradients/autodiff.hpp>

namespace troupe {

struct LossScaling {
  double initial = 65536;      // a power of two, from 1 to 2^24
  bool dynamic = true;         // otherwise the scale is fixed
  int growth_interval = 2000;  // good steps before it doubles
};

// The state of one training graph.
struct LossScale {
  LossScaling options{};
  VariableRef state{};  // "loss_scale/state", f64 [3]: the scale, good steps since it changed, steps skipped
  Output scale{};       // f32 scalar
  Output skipped{};     // i64 scalar: steps skipped since the beginning
  // The graph is for shard_variables: see apply_scaled_gradients.
  bool on_shards = false;

  // loss * scale, in the loss's dtype.
  Output scaled(Output loss, std::string name = {}) const;
};

// Adds the variable, which is not trainable, and its parts, below the name. Throws invalid_argument for invalid
// options.
LossScale loss_scale(Graph& graph, const LossScaling& options, std::string name = "loss_scale");
// The scale of a variable that loss_scale() has made; in eager mode that of now.
LossScale loss_scale_of(const VariableRef& state, const LossScaling& options);

// Whether all elements of all gradients are finite: a bool scalar. Each gradient is checked on its variable's device.
Output all_finite(std::span<const Gradient> gradients, std::span<const VariableRef> variables);

// f32 scalar: 1, or NaN if `finite` is false. Multiplying by it leaves a value unchanged, or marks it for the receiver.
Output one_or_nan(Output finite);

// A node that updates the scale and the counts after a step: `verdict` is one_or_nan().
Output update_loss_scale(const LossScale& scale, Output verdict, std::string name);

}  // namespace troupe
