// Freezing: a model whose variables have become constants, for inference alone.
#pragma once

#include <map>
#include <memory>
#include <string>

#include <troupe/graph/graph.hpp>

namespace troupe {

// Replaces each read of a variable by a Const of its value. Tensors are shared, not copied; the reads keep their names.
// Throws not_found for a variable that is read and has no value, invalid_argument for a value of another dtype or
// shape.
std::unique_ptr<Graph> freeze(const Graph& graph, const std::map<std::string, Tensor>& values);

}  // namespace troupe
