// Runs one kernel outside any plan: for constant folding, updates on shards, and eager mode.
#pragma once

#include <span>
#include <vector>

#include <troupe/devices/kernel.hpp>
#include <troupe/graph/graph.hpp>

namespace troupe {

// What a kernel works on. Input i is variables[i], which may be shorter, where inputs[i] is null or invalid.
struct KernelOperands {
  std::span<const Tensor* const> inputs{};
  std::span<Variable* const> variables{};
  std::span<Tensor> outputs{};
  RandomKey random{};
  std::uint64_t node_hash = 0;
};

// Runs a kernel on the calling thread, which has the device's compute stream, and sets its outputs. Propagates the
// kernel's exceptions.
void run_kernel(const Kernel& kernel, const KernelOperands& operands, Device& device);

// The same for tensors; returns the outputs.
std::vector<Tensor> run_kernel(const Kernel& kernel, std::span<const Tensor> inputs,
                               std::span<Variable* const> variables, std::size_t outputs, Device& device,
                               std::uint64_t node_hash = 0);

// Runs the kernel of a node and returns its outputs. All inputs are tensors: throws invalid_argument for a node that
// takes variables. Propagates the kernel's exceptions.
std::vector<Tensor> run_single_kernel(const Node& node, std::span<const Tensor> inputs, const KernelRegistry& kernels,
                                      Device& device);

}  // namespace troupe
