// Common subexpressions: what would be computed twice is computed once.
#pragma once

#include <memory>

#include <troupe/graph/graph.hpp>

namespace troupe {

// Of nodes with the same plain op (Const included), attributes (those that begin with '_' do not count),
// inputs, control inputs, device and colocation, keeps the first; the others' consumers take its outputs.
// Tensors and reals are the same if their bits are. If one of them is a target (kTargetAttribute), so is the
// node that stays.
std::unique_ptr<Graph> eliminate_common_subexpressions(const Graph& graph);

}  // namespace troupe
