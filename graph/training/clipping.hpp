// Clipping: gradients that are too long, or have elements that are too large, are made smaller before they are used.
//
//   auto gradients = compute_gradients(loss, variables);
//   Output train = apply_gradients(graph, optimizer, clip_gradients(gradients, {.global_norm = 1.0}));
#pragma once

#include <span>
#include <string>
#include <vector>

#include <troupe/graph/optimizers/optimizers.hpp>

namespace troupe {

// 0: no clipping of that kind. Several are applied in this order.
struct Clipping {
  double value = 0;        // each element to [-value, value]
  double norm = 0;         // each gradient, multiplied by min(1, norm / its norm)
  double global_norm = 0;  // all gradients, multiplied by min(1, global_norm / the norm of all as one vector): Pascanu,
                           // Mikolov & Bengio, "On the difficulty of training recurrent neural networks" (ICML 2013)

  // The first invalid option, like "the global norm must be 0 (no clipping) or positive, not -1"; "" if all are valid.
  std::string problem() const;
  std::string to_string() const;  // "none", "value 1, global norm 0.5"
};

// The norm of all gradients as one vector: sqrt(sum of all squares), an f64 scalar. Each gradient's squares are summed
// in its own dtype, and these sums, from the first gradient on, in f64. Sparse gradients count their rows as they are;
// repeated rows are not summed first (as in TensorFlow). Throws invalid_argument if there is no gradient.
Output global_norm(std::span<const GradientAndVariable> gradients);

// Gradients within the limits keep their bits. A norm that is not finite makes all gradients that it is of NaN, since
// the right length is unknown; an element that is NaN stays so. Sparse gradients are clipped as they are: repeated rows
// are not summed first. With `scale`, the gradients are of a scaled loss and stay scaled; the limits are for unscaled
// ones. Throws invalid_argument for invalid options, or if there is nothing to clip.
//
// Running averages do not count and stay unchanged. The nodes are on the devices of the gradients, below "clip/" in the
// scope.
std::vector<GradientAndVariable> clip_gradients(std::span<const GradientAndVariable> gradients,
                                                const Clipping& clipping, const LossScale* scale = nullptr);

}  // namespace troupe
