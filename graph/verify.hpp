// Verification: is a graph sound, and has a pass kept what it must keep? For passes, which copy nodes without inferring
// anything again, and for their tests.
#pragma once

#include <memory>
#include <string_view>

#include <troupe/graph/graph.hpp>

namespace troupe {

// Throws internal, naming the node, unless
//   * inputs and control inputs are there, and there is no cycle;
//   * inputs, attributes and output dtypes fit the op, and output shapes do not contradict what inference says;
//   * devices are names of devices, nodes to be colocated with exist, and so do functions, whose bodies are sound too.
void verify(const Graph& graph);

// The same for a graph whose nodes have been placed: in addition all devices are complete, and what takes the handle of
// a variable is where the variable is.
void verify_placed(const Graph& graph);

// The same for `after`, which a pass has made of `before`: in addition
//   * every Fetch is still there with its index, dtype and a shape that does not contradict the former one;
//   * some node is still a target if one was;
//   * of two nodes that are in both graphs, and touch variables, arrive or depart, the second still runs after
//     the first.
void verify_rewrite(const Graph& before, const Graph& after);

// Passes verify the graphs that they make while this is on. The default: on in debug and sanitizer builds. The setting
// is the process's: set it before passes run.
void verify_passes(bool on);
bool passes_are_verified();

// How a pass returns its graph: throws internal, naming the pass, if passes are verified and `after` is not sound, or,
// with `before`, not a sound rewrite.
std::unique_ptr<Graph> verified(std::string_view pass, std::unique_ptr<Graph> after);
std::unique_ptr<Graph> verified(std::string_view pass, const Graph& before, std::unique_ptr<Graph> after);

}  // namespace troupe
