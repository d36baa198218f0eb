// Runs one kernel outside any plan: for constant folding and updates on shards.
#pragma once

#include <span>
#include <vector>

#include <troupe/devices/kernel.hpp>
#include <troupe/graph/graph.hpp>

namespace troupe {

// Runs a kernel on these inputs; where inputs[i] is invalid, it works on variables[i]. Returns the outputs. Throws what
// the kernel throws.
std::vector<Tensor> run_kernel(const Kernel& kernel, std::span<const Tensor> inputs,
                               std::span<Variable* const> variables, std::size_t outputs, Device& device,
                               std::uint64_t node_hash = 0);

// Returns the node's outputs. Inputs are tensors (rejects nodes that take variables). Throws what the kernel throws.
std::vector<Tensor> run_single_kernel(const Node& node, std::span<const Tensor> inputs, const KernelRegistry& kernels,
                                      Device& device);

}  // namespace troupe
