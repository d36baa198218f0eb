// Turns a user's graph, and the feeds and fetches of a call, into the graph of that call.
#pragma once

#include <compare>
#include <memory>
#include <string>
#include <vector>

#include <troupe/graph/graph.hpp>

namespace troupe {

// Inputs and results of a call. Outputs are named "node" or "node:1".
struct Signature {
  std::vector<std::string> feeds;    // outputs: any may be fed, not only Placeholders
  std::vector<std::string> fetches;  // outputs, in the order of the results; one may be fetched twice
  std::vector<std::string> targets;  // nodes to run without fetching anything
  auto operator<=>(const Signature&) const = default;
};

// Replaces every fed output by a Feed node (attribute index: its position in feeds), gives every fetch a Fetch node
// (index: its position in fetches), marks targets with kTargetAttribute, and prunes everything they do not need. A feed
// that nothing needs has no Feed node. Control edges of a fed Placeholder move to its Feed. Throws not_found for an
// output or node that is not in the graph; invalid_argument for an output fed twice, a resource fed or fetched, nothing
// to run, and Placeholders that are needed but not fed.
std::unique_ptr<Graph> make_callable_graph(const Graph& graph, const Signature& signature);

}  // namespace troupe
