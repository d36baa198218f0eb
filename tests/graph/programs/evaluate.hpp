// Values of a graph: runs its nodes one after the other with the kernels of the CPU.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include <troupe/devices/kernel.hpp>
#include <troupe/graph/graph.hpp>

namespace troupe::testing {

using Values = std::map<std::string, Tensor>;

// Values of all outputs, by name. `given` has those of Placeholders, Feeds ("x" is also that of "x/feed") and
// variables, whose values after the step are under the names of their handles. Throws invalid_argument for what is not
// given.
Values evaluate(const Graph& graph, const Values& given);

// Of one node: for constant folding.
std::vector<Tensor> evaluate_node(const Node& node, std::span<const Tensor> inputs);

// "Add:f32", "NoOp", ...: the kernels of the CPU.
const KernelRegistry& cpu_kernels();

}  // namespace troupe::testing
