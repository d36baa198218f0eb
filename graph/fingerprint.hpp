// A hash that two graphs share only if they are equal: programs that must build equal graphs compare it.
#pragma once

#include <cstdint>

#include <troupe/graph/graph.hpp>

namespace troupe {

// FNV-1a over all nodes (op, name, inputs, controls, attributes with the elements of tensors, device) in id order,
// likewise over functions, and over the libraries of their ops. Does not resist deliberate collisions.
std::uint64_t fingerprint(const Graph& graph);

}  // namespace troupe
