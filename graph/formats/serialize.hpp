// Graphs as data: messages/proto/graph.proto. Writing is deterministic. Reading trusts nothing: nodes may come in any
// order and get the checks of Graph::add, plus those for errors only data can contain (unknown names, cycles, tensors
// whose bytes do not fit their shape, functions that call themselves).
//
// Shapes are not written; they are inferred again from attributes. Libraries of ops are written by name, version and
// SHA-256 (graph/loaded_ops.hpp). Functions form one flat list; when read, a graph or function body receives those that
// its own nodes name, and the graph also those that nothing names.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <troupe/graph/graph.hpp>

namespace troupe {

inline constexpr std::uint32_t kGraphVersion = 1;

// Equal graphs give equal bytes. Throws invalid_argument for functions nested deeper than 16, for two different
// functions with the same name, and above 2 GiB.
std::string serialize(const Graph& graph);

// Throws data_loss (not a graph, or truncated), not_found (unknown op, node or function), unimplemented (an op of a
// later version than this program's) or invalid_argument (everything else), naming the node; failed_precondition naming
// a library of ops that is not loaded, or in another version or from another file (check_loaded()). `ops` must outlive
// the graph.
std::unique_ptr<Graph> parse_graph(std::string_view bytes, const OpRegistry& ops = standard_ops());

}  // namespace troupe
