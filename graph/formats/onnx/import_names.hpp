// Names of nodes as a model has them. Builders name nodes below the scope of a model's node ("layer/MatMul"); the node
// that makes its first output gets its name itself.
#pragma once

#include <map>
#include <memory>
#include <string>

#include <troupe/graph/graph.hpp>

namespace troupe {

// New names by those that nodes have, in the graph and in the bodies of its functions and of theirs.
using OnnxNodeNames = std::map<std::string, std::string>;

// A copy of the graph, with the same node ids. A node whose new name another one has keeps its own, or one like it.
std::unique_ptr<Graph> with_node_names(const Graph& graph, const OnnxNodeNames& names);

}  // namespace troupe
