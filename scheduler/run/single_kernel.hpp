// Runs one kernel outside any plan: for constant folding and updates on shards.
#pragma once

#include <span>
#include <vector>

#include <troupe/devices/kernel.hpp>
#include <troupe/graph/graph.hpp>

namespace troupe {

// Runs a kernel and returns its outputs. Input i is variables[i] if inputs[i] is invalid. Propagates the kernel's
// exceptions.
std::vector<Tensor> run_kernel(const Kernel& kernel, std::span<const Tensor> inputs,
                               std::span<Variable* const> variables, std::size_t outputs, Device& device,
                               std::uint64_t node_hash = 0);

// Runs the kernel of a node and returns its outputs. All inputs are tensors: throws invalid_argument for a node that
// takes variables. Propagates the kernel's exceptions.
std::vector<Tensor> run_single_kernel(const Node& node, std::span<const Tensor> inputs, const KernelRegistry& kernels,
                                      Device& device);

}  // namespace troupe
