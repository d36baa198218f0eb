// Running averages: variables that follow values of the steps, such as the statistics of batch normalisation.
//
//   average += part (value - average)
//
// They are not trained, and yet every way of training has to keep them like what is: so each is handed on as if it were
// trained, with the gradient `average - value`, by plain gradient descent at the rate `part`, whatever the optimizer.
// What happens to gradients then happens to it: with several slots (or ranks, or micro-batches) it follows the mean of
// their values, added in the same fixed order; on parameter servers it lies on a shard, is pulled with the weights and
// moved by pushes; a step that a scaled loss skips does not move it. Only clipping, and the division by the loss scale,
// leave it alone.
#pragma once

#include <span>
#include <vector>

#include <troupe/graph/optimizers/optimizers.hpp>

namespace troupe {

// What one application of a layer found for the average to follow.
struct RunningAverage {
  VariableRef variable{};  // not trainable
  Output value{};          // of its dtype and shape; gradients do not flow through it
  double part = 0.1;       // in (0, 1]
};

// For apply_gradients, beside the gradients of what is trained. Throws invalid_argument for a part out of range.
std::vector<GradientAndVariable> moves_of(std::span<const RunningAverage> averages);

}  // namespace troupe
