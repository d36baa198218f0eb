// What the outputs of a graph are computed from, as text in which names do not occur: equal for graphs that are the
// same but for names, for nodes that no output needs, and for whether weights are variables or constants.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <troupe/graph/formats/onnx/onnx.hpp>

namespace troupe::testing {

// One line for each node, sources before what reads them: "%3 = Add(%1, %2) T=f32". Inputs of the model have their
// numbers, constants and variables their values. Bodies of branches and loops follow their node, indented. Reals are
// rounded to f32, as models have them. `variables`: their values.
std::string canonical_text(const Graph& graph, const std::vector<OnnxValue>& inputs,
                           const std::vector<OnnxValue>& outputs, const std::map<std::string, Tensor>& variables);

}  // namespace troupe::testing
