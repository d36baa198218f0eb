// Runs one node's kernel outside any plan: constant folding, tests.
#pragma once

#include <span>
#include <vector>

#include "devices/kernel.hpp"
#include "graph/graph.hpp"

namespace troupe {

// The node's outputs. Inputs are tensors (a node that takes variables is refused). Throws what the kernel throws.
std::vector<Tensor> run_single_kernel(const Node& node, std::span<const Tensor> inputs, const KernelRegistry& kernels, Device& device);

}  // namespace troupe
