// Clipping by global norm (Pascanu, Mikolov & Bengio, "On the difficulty of training recurrent neural networks", ICML
// 2013): if the global norm of the gradients is too large, all are scaled down by the same factor.
//
//   auto gradients = compute_gradients(loss, variables);
//   Output train = apply_gradients(graph, optimizer, clip_by_global_norm(gradients, 1.0));
#pragma once

#include <span>
#include <vector>

#include <troupe/graph/optimizers/optimizers.hpp>

namespace troupe {

// The norm of all gradients as one vector: sqrt(sum of all squares), an f64 scalar. Each gradient's squares are summed
// in its own dtype, and these sums, from the first gradient on, in f64. Sparse gradients count their rows as they are;
// repeated rows are not summed first (as in TensorFlow). Throws invalid_argument if there is no gradient.
Output global_norm(std::span<const GradientAndVariable> gradients);

// Multiplies each gradient by min(1, clip_norm / global_norm): gradients within the limit keep their bits. If the norm
// is not finite, all become NaN, since the right length is unknown. With `scale`, the gradients are of a scaled loss
// and stay scaled; the unscaled norm is compared. Throws invalid_argument if clip_norm is not positive.
//
// Running averages do not count and stay unchanged. The nodes are on the devices of the gradients, below "clip/" in the
// scope.
std::vector<GradientAndVariable> clip_by_global_norm(std::span<const GradientAndVariable> gradients, double clip_norm,
                                                     const LossScale* scale = nullptr);

}  // namespace troupe
