// Puts a CheckNumerics behind each floating output of a kernel, in the graph and in its functions: the step fails at
// the first node that makes a NaN or an infinity, with its name and a description of its inputs. Values keep their
// bits; nothing is fused or written in place, so steps take longer and more memory.
#pragma once

#include <memory>

#include <troupe/graph/graph.hpp>

namespace troupe {

std::unique_ptr<Graph> check_numerics(const Graph& graph);

}  // namespace troupe
