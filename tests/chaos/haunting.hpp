// What a network may do: a gradient that a worker has sent long ago, before it was given up for lost, comes when it is
// back.
#pragma once

#include <troupe/actors/training/training_plan.hpp>

namespace troupe::chaos {

// Whenever a link to a ps task is made again, pushes leave over it that say they are of view 1 and of the last batch of
// an asynchronous job. Their gradients are wrong, so that it shows when one is applied.
void haunt(const TrainingPlan& plan);

}  // namespace troupe::chaos
