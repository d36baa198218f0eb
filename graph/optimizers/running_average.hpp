// Running averages: variables that follow values of the steps, like the statistics of batch normalisation.
//
//   average += part (value - average)
//
// They are not trained, yet every training mode has to maintain them like trained variables. So each is passed on as if
// it were trained, with the gradient `average - value`, by plain gradient descent at the rate `part`, regardless of the
// optimizer. It is then treated like any gradient: with several slots (or ranks, or micro-batches) the average follows
// the mean of their values, summed in the same fixed order; on parameter servers it is on a shard, is pulled with the
// weights and moved by pushes; a step skipped by loss scaling does not move it. Only clipping, and the division by the
// loss scale, leave it alone.
#pragma once

#include <span>
#include <vector>

#include <troupe/graph/optimizers/optimizers.hpp>

namespace troupe {

// The value that an average should follow, from one application of a layer.
struct RunningAverage {
  VariableRef variable{};  // not trainable
  Output value{};          // of its dtype and shape; gradients do not flow through it
  double part = 0.1;       // in (0, 1]
};

// For apply_gradients, alongside the gradients of trained variables. Throws invalid_argument for a part out of range.
std::vector<GradientAndVariable> moves_of(std::span<const RunningAverage> averages);

}  // namespace troupe
