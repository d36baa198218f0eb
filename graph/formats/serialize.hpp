// Graphs as data: messages/proto/graph.proto. Writing is deterministic. Reading believes nothing: nodes may
// come in any order and are checked as Graph::add checks them, plus what only data can get wrong (names that
// do not exist, cycles, tensors whose bytes do not fit their shape, functions that call themselves).
//
// Shapes are not written: they are inferred again from attributes. Functions form one list; when read, a
// graph or function body gets those that its own nodes name, and the graph also those that nothing names.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <troupe/graph/graph.hpp>

namespace troupe {

inline constexpr std::uint32_t kGraphVersion = 1;

// The same bytes for the same graph. Throws invalid_argument for functions nested deeper than 16, for
// two different ones of one name, and above 2 GiB.
std::string serialize(const Graph& graph);

// Throws data_loss (not a graph, or bytes missing), not_found (an op, node or function that does not exist)
// or invalid_argument (everything else), naming the node. `ops` must outlive the graph.
std::unique_ptr<Graph> parse_graph(std::string_view bytes, const OpRegistry& ops = standard_ops());

}  // namespace troupe
