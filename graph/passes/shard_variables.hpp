// Sharding: the variables of a ShardMap leave the graph and live on shards. Reading one becomes a Pull,
// updating it by an optimizer a Push of the gradient; each starts as soon as it can. What the shard has to do
// with a gradient is returned as data (UpdateRule).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/graph/graph.hpp>
#include <troupe/graph/optimizers/schedules.hpp>
#include <troupe/graph/passes/shard_map.hpp>

namespace troupe {

// A variable that an optimizer keeps beside each trained variable. If its shape is the variable's, it is cut
// alike.
struct SlotVariable {
  std::string role;  // the op's input: "accum", "m"
  std::string name;
  DType dtype = DType::invalid;
  Shape shape;
  std::string initial_value;  // an output of the graph before sharding, or ""
};

// How a shard applies gradients to a variable: run `op` on (slice, slots' slices, learning_rate, [t],
// gradient).
struct UpdateRule {
  std::string op;                    // "ApplyAdam" or "SparseApplyAdam"
  Attributes attributes;             // of the op
  std::vector<SlotVariable> slots;   // in the order of the op's inputs
  Tensor learning_rate;              // a scalar; invalid: it follows `schedule`, or the op takes none
  std::optional<Schedule> schedule;  // of the number of the update, less one
  bool counts_updates = false;       // the op takes t: the number of this update, from 1
  bool sparse = false;
  bool guarded = false;  // a gradient that is not finite changes nothing, and is no update to count
};

struct ShardedGraph {
  std::unique_ptr<Graph> graph;
  std::map<std::string, UpdateRule> rules;            // by variable; none for one that no optimizer updates
  std::map<std::string, std::string> initial_values;  // by variable: an output of the graph before sharding, or ""
};

// For each variable of the map:
//   * its first ReadVariable becomes a Pull of the same name, on no particular device; of a variable that is
//   cut, a Concat of
//     that name joins the Pulls "name/slice_<id>". Further reads become Identity nodes: one step sees one
//     version;
//   * its (Sparse)Apply node becomes a NoOp of the same name after the Push or PushSparse nodes
//   "name/push_<id>", which wait
//     for what the Apply node waited for. A dense gradient of a cut variable is cut likewise;
//   * AssignVariable nodes (of it, and of its slots) become NoOps: the owner initializes. Their outputs are
//   their values.
//     Its Variable node and those of its slots go, with reads of slots that nothing uses, and colocation with
//     them.
// What only those needed stays until pruned.
//
// Throws not_found for a variable of the map that the graph does not have; invalid_argument if its dtype or
// shape differs, if two nodes update it, if its learning rate is neither a Const nor a LearningRate, or if something
// else uses it or its slots; unimplemented for a sparse gradient of a variable that is cut.
ShardedGraph shard_variables(const Graph& graph, const ShardMap& map);

// The variables that an optimizer updates (the first input of an Apply or SparseApply node), by name: what to
// make a ShardMap of.
std::vector<VariableSpec> updated_variables(const Graph& graph);

}  // namespace troupe
