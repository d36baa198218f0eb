// Reads from a graph how its variables are updated: rules, as data, by which a shard applies gradients.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/graph.hpp>
#include <troupe/graph/optimizers/schedules.hpp>
#include <troupe/graph/passes/shard_map.hpp>

namespace troupe {

// A variable that an optimizer keeps for each trained variable. If it has the variable's shape, it is cut the same way.
struct SlotVariable {
  std::string role;  // the op's input: "accum", "m"
  std::string name;
  DType dtype = DType::invalid;
  Shape shape;
  std::string initial_value;  // an output of the graph before sharding, or ""
};

// How a shard applies gradients to a variable: runs `op` on (slice, slots' slices, learning_rate, [t], gradient).
struct UpdateRule {
  std::string op;                    // "ApplyAdam" or "SparseApplyAdam"
  Attributes attributes;             // of the op
  std::vector<SlotVariable> slots;   // in the order of the op's inputs
  Tensor learning_rate;              // a scalar; invalid: it follows `schedule`, or the op takes none
  std::optional<Schedule> schedule;  // of the number of the update, less one
  bool counts_updates = false;       // the op takes t: the number of this update, from 1
  bool sparse = false;
  std::optional<Attributes> constraint{};  // of a ConstrainVariable that follows each update
  bool fixed_rate = false;  // Update::rate_scale does not count: the rate is the part of a running average
  bool guarded = false;     // a gradient that is not finite changes nothing and does not count as an update

  // Whether an update leaves the rows that its gradient does not have as they are (SlotUpdates::lazy).
  bool changes_rows_only() const;
};

// The rules of variables, `of`: Variable node to name. Throws invalid_argument if two nodes update one of them, if a
// slot is one of them or has two owners, if a learning rate is neither a Const nor a LearningRate, or if a constraint
// follows no update.
std::map<std::string, UpdateRule> update_rules(const Graph& graph, const std::map<int, std::string>& of);

// The variables that an optimizer updates (the first input of an Apply or SparseApply node), by name: the input of a
// ShardMap.
std::vector<VariableSpec> updated_variables(const Graph& graph);

// The output that initializes a variable; "": none.
std::string initial_value_of(const Graph& graph, const VariableInfo& info);
// The named input of a node; none if its op does not have it. Updates take no lists.
std::optional<Endpoint> input_of(const Node& node, std::string_view input);

}  // namespace troupe
