#include "troupe/graph/training/backprop_order.hpp"

#include <algorithm>
#include <numeric>

namespace troupe {

std::vector<std::size_t> backprop_order(std::span<const GradientAndVariable> gradients) {
  std::vector<std::size_t> order(gradients.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) {
    const Gradient& g = gradients[i].gradient;
    return g.is_dense() ? g.dense.node : g.values.node;
  });
  return order;
}

}  // namespace troupe
