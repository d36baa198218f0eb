// Common subexpressions: computes identical nodes once.
#pragma once

#include <memory>

#include <troupe/graph/graph.hpp>

namespace troupe {

// Of nodes with the same plain op (Const included), attributes (except those that begin with '_'), inputs, control
// inputs, device and colocation, keeps the first and redirects consumers of the others to it. Tensors and reals are
// compared bit by bit. If one of the nodes is a target (kTargetAttribute), so is the one that stays.
std::unique_ptr<Graph> eliminate_common_subexpressions(const Graph& graph);

}  // namespace troupe
