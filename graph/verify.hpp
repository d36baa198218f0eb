// Verification: checks that a graph is sound, and that a pass kept what it must. For passes, which copy nodes without
// inferring anything again, and for their tests.
#pragma once

#include <memory>
#include <string_view>

#include <troupe/graph/graph.hpp>

namespace troupe {

// Throws internal, naming the node, unless
//   * inputs and control inputs exist, and there is no cycle;
//   * inputs, attributes and output dtypes fit the op, and output shapes do not contradict inference;
//   * devices are device names, colocation targets and functions exist, and function bodies are sound too.
void verify(const Graph& graph);

// The same for a placed graph: in addition, all device names are complete, and nodes that take a variable's handle are
// on its device.
void verify_placed(const Graph& graph);

// The same for `after`, which a pass has made of `before`: in addition
//   * every Fetch still exists with its index, dtype and a shape that does not contradict the former one;
//   * some node is still a target if one was;
//   * of two nodes that are in both graphs, and touch variables, arrive or depart, the second still runs after the
//     first.
void verify_rewrite(const Graph& before, const Graph& after);

// While on, passes verify the graphs they make. Default: on in debug and sanitizer builds. Process-wide: set it before
// passes run.
void verify_passes(bool on);
bool passes_are_verified();

// Returns the graph of a pass: throws internal, naming the pass, if passes are verified and `after` is not sound, or,
// with `before`, not a sound rewrite.
std::unique_ptr<Graph> verified(std::string_view pass, std::unique_ptr<Graph> after);
std::unique_ptr<Graph> verified(std::string_view pass, const Graph& before, std::unique_ptr<Graph> after);

}  // namespace troupe
