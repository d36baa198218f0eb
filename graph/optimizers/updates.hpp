// Builder API for updates: each function adds an Apply node, or its Sparse form for a sparse gradient, on the
// variable's device. `var` and the slots are handles of variables with the same shape, `lr` is a scalar of their dtype.
// The nodes have no outputs: use the result only as a control (see group). Formulas:
// graph/optimizers/optimizer_rules.hpp.
#pragma once

#include <cstdint>

#include <troupe/graph/builder/core.hpp>
#include <troupe/graph/gradients/autodiff.hpp>
#include <troupe/graph/optimizers/optimizer_rules.hpp>

namespace troupe {

// What a sparse gradient does to the rows that it does not have.
enum class SlotUpdates : std::uint8_t {
  lazy,   // nothing: their slots and values stay, weights do not decay
  exact,  // what a dense gradient of zeros does: momentum, means and weight decay continue
};

// `inputs`: var, its slots, lr, and t if the rule counts updates.
Output apply_rule(const OptimizerRule& rule, Outputs inputs, const Gradient& gradient, Name name = {},
                  SlotUpdates slot_updates = SlotUpdates::lazy);

Output apply_sgd(Output var, Output lr, const Gradient& gradient, Name name = {});
Output apply_momentum(Output var, Output accum, Output lr, const Gradient& gradient, MomentumRule rule = {},
                      Name name = {});
Output apply_adagrad(Output var, Output accum, Output lr, const Gradient& gradient, AdagradRule rule = {},
                     Name name = {});
Output apply_rmsprop(Output var, Output ms, Output mom, Output lr, const Gradient& gradient, RmsPropRule rule = {},
                     Name name = {});
// t (i64 scalar) is the number of this update, from 1.
Output apply_adam(Output var, Output m, Output v, Output lr, Output t, const Gradient& gradient, AdamRule rule = {},
                  Name name = {});

}  // namespace troupe
