// Layers that move elements, and that join several inputs.
#pragma once

#include <troupe/graph/layers/network.hpp>

// Each function throws invalid_argument for options that no input fits.
namespace troupe::layers {

// [n, ...] -> [n, product of the others], which must be known.
LayerPtr flatten();
// [n, ...] -> [n, ...shape], in which one dimension may be -1.
LayerPtr reshape(Integers shape);
// Dimension i of an example becomes that numbered axes[i - 1], from 1: {2, 1} transposes matrices.
LayerPtr permute(Integers axes);
// [n, c] -> [n, times, c].
LayerPtr repeat_vector(std::int64_t times);

// Of two or more inputs, whose shapes broadcast from the right.
LayerPtr add();
LayerPtr multiply();
LayerPtr average();
LayerPtr maximum();
LayerPtr minimum();
LayerPtr subtract();  // of two
// Along an axis of the tensors, which count the batch; other dimensions must be equal.
LayerPtr concatenate(std::int64_t axis = -1);

struct DotOptions {
  std::int64_t axis_a = -1, axis_b = -1;  // of the tensors, from 1; negative ones count from the end
  bool normalize = false;                 // along the axes first, for cosines
};
// Sums of products of two inputs along an axis of each: [n, ...a, ...b], the dimensions that remain; [n, 1] if none.
LayerPtr dot(DotOptions options = {});

}  // namespace troupe::layers
