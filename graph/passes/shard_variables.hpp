// Sharding: moves the variables of a ShardMap from the graph to shards. Reading one becomes a Pull, updating it by an
// optimizer a Push of the gradient; each starts as soon as it can. The shard's work on a gradient is returned as data
// (UpdateRule).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/graph/graph.hpp>
#include <troupe/graph/passes/shard_map.hpp>
#include <troupe/graph/passes/update_rules.hpp>

namespace troupe {

// Nodes with which a table's rows are read by their numbers.
struct TableReads {
  std::string ids;                   // a Placeholder: i64 [?]
  std::string rows;                  // these rows
  std::vector<std::string> numbers;  // of a table on demand, by slice: the rows of the slice that have been updated
};

struct ShardedGraph {
  std::unique_ptr<Graph> graph;
  std::map<std::string, TableReads> tables;           // by variable (graph/passes/table_lookups.hpp)
  std::map<std::string, UpdateRule> rules;            // by variable; absent if no optimizer updates it
  std::map<std::string, std::string> initial_values;  // by variable: an output of the graph before sharding, or ""
  std::vector<SlicePack> packs;                       // by id
};

// The phase in which a variable is updated.
using PhaseOf = std::function<std::uint32_t(const std::string& variable)>;

// For each variable of the map:
//   * its first ReadVariable becomes a Pull of the same name, on no particular device; for a cut variable, a Concat of
//     that name joins the Pulls "name/slice_<id>". Further reads become Identity nodes: one step sees one version;
//   * lookups of a table (graph/passes/table_lookups.hpp) read only their rows: DistinctRows finds those of a group of
//     lookups, AskRows asks each slice for its part, Pulls bring them, and the lookup reads these by their places. A
//     Pull of the whole table remains for calls that fetch it, unless it is on demand;
//   * its (Sparse)Apply node becomes a NoOp of the same name after the Push or PushSparse nodes "name/push_<id>", which
//     wait for what the Apply node waited for. A dense gradient of a cut variable is cut likewise; of a sparse one each
//     slice gets its rows, once each (SumRows, as which the gradient may already be there);
//   * with `phase_of`, small variables with dense updates in one phase travel in packs (pack_slices): one Pull that is
//     split, and one Push of their joined gradients before the last of their NoOps. All of a phase must be updated in
//     the same step, or none;
//   * AssignVariable and InitializeVariable nodes (of it, and of its slots) become NoOps: the owner initializes. Their
//     outputs become the assigned values. The Variable nodes of both are removed, with unused reads of slots and
//     colocation with them.
// Nodes that only those needed remain until pruned.
//
// Throws not_found for a variable of the map that is not in the graph; invalid_argument if its dtype or shape differs,
// if two nodes update it, if its learning rate is neither a Const nor a LearningRate, if anything else uses it or its
// slots, or if it is on demand, but no table.
ShardedGraph shard_variables(const Graph& graph, const ShardMap& map, const PhaseOf& phase_of = nullptr);

}  // namespace troupe
