// A number that two graphs share only if they are the same: programs that must build equal graphs compare it.
#pragma once

#include <cstdint>

#include <troupe/graph/graph.hpp>

namespace troupe {

// FNV-1a over all nodes (op, name, inputs, controls, attributes with the elements of tensors, device), in the order of
// their ids, and over functions likewise. Not for graphs that somebody made to collide.
std::uint64_t fingerprint(const Graph& graph);

}  // namespace troupe
