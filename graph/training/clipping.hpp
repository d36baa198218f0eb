// Clipping by global norm (Pascanu, Mikolov & Bengio, "On the difficulty of training recurrent neural networks", ICML
// 2013): gradients whose common length is too great are all made shorter by the same factor.
//
//   auto gradients = compute_gradients(loss, variables);
//   Output train = apply_gradients(graph, optimizer, clip_by_global_norm(gradients, 1.0));
#pragma once

#include <span>
#include <vector>

#include <troupe/graph/optimizers/optimizers.hpp>

namespace troupe {

// The length of all gradients as one vector: sqrt(sum of all squares), an f64 scalar. Each gradient's squares are
// summed in its own dtype, the sums from the first gradient on in f64. Of a sparse gradient count the rows as they are;
// rows that come more than once are not added up first (as in TensorFlow). Throws invalid_argument if there is no
// gradient.
Output global_norm(std::span<const GradientAndVariable> gradients);

// Each gradient times min(1, clip_norm / global_norm): what is short enough keeps its bits. If the norm is not finite,
// all are NaN: nobody can say how long they should be. With `scale`, the gradients are of a scaled loss, and stay so;
// compared is the norm that they have without it. Throws invalid_argument if clip_norm is not positive.
//
// Running averages among them count for nothing and stay as they are. The nodes are on the devices of the gradients,
// below "clip/" of the scope.
std::vector<GradientAndVariable> clip_by_global_norm(std::span<const GradientAndVariable> gradients, double clip_norm,
                                                     const LossScale* scale = nullptr);

}  // namespace troupe
