// Tables: variables of which a step reads some rows only. A worker pulls these rows from the table's shards, each once,
// and pushes the sums of their gradients (graph/passes/shard_variables.hpp).
#pragma once

#include <vector>

#include <troupe/graph/graph.hpp>

namespace troupe {

// A node that reads rows of a table, its first input, by their numbers, its second: a Gather along the first axis, or
// an EmbeddingLookupSparse.
struct TableLookup {
  int node = -1;
  int table = -1;  // the Variable node
  int group = 0;   // lookups of a group share one pull
};

inline constexpr std::int64_t kSmallTableBytes = 64 << 10;

// The lookups of all tables, in topological order, groups numbered from 0 in order of their first. A variable is a
// table if it has more than kSmallTableBytes or is on demand (VariableOptions), is updated by a sparse gradient, and
// all nodes that consume it are lookups. Lookups of one table share a pull if the same ends of the graph need them (so
// each call needs all or none) and none needs the rows of another.
std::vector<TableLookup> table_lookups(const Graph& graph);

// Whether this update rule's node takes the rows of a gradient.
bool takes_rows(const Node& update);

// A topological order in which the row numbers of all lookups of a group stand before the first of them.
std::vector<int> order_with_groups(const Graph& graph, const std::vector<TableLookup>& lookups);

}  // namespace troupe
