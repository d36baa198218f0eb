// From a user's graph and what a call feeds and fetches to the graph of that call.
#pragma once

#include <compare>
#include <memory>
#include <string>
#include <vector>

#include <troupe/graph/graph.hpp>

namespace troupe {

// What a call gives and wants. Outputs are named "node" or "node:1".
struct Signature {
  std::vector<std::string> feeds;    // outputs: any may be fed, not Placeholders only
  std::vector<std::string> fetches;  // outputs, in the order of the results; one may be fetched twice
  std::vector<std::string> targets;  // nodes to run without fetching anything
  auto operator<=>(const Signature&) const = default;
};

// Every fed output is replaced by a Feed node (attribute index: its place in feeds), every fetch gets a Fetch
// node (index: its place in fetches), targets are marked with kTargetAttribute, and what those do not need is
// pruned. A feed that nothing needs has no Feed node. What ran before or after a fed Placeholder through
// control edges does so with the Feed. Throws not_found for an output or node the graph does not have;
// invalid_argument for an output fed twice, a resource fed or fetched, nothing to run, and Placeholders that
// are needed but not fed.
std::unique_ptr<Graph> make_callable_graph(const Graph& graph, const Signature& signature);

}  // namespace troupe
