// Variables: a store (node Variable), its initial value, Assign and Read.
//
//   VariableRef w = variable(graph, {.name = "w", .initial_value = random_normal(graph, Shape{784, 10})});
//   Output y = matmul(x, w.read());
//   session.run({}, {}, {initializer(graph)});
//
// A Variable node holds everything known about its variable, so a graph read from a file has its variables too.
#pragma once

#include <string>
#include <vector>

#include <troupe/graph/builder/core.hpp>

namespace troupe {

struct VariableOptions {
  Name name = "variable";               // relative to the scope; made unique
  Output initial_value{};               // default: zeros of `shape` and `dtype`
  Shape shape = Shape::unknown_rank();  // default: that of initial_value; otherwise it must agree
  DType dtype = DType::f32;             // of the zeros; unused with an initial_value
  bool trainable = true;
  std::string device{};
  // For a table of which a job reads some rows only (graph/passes/table_lookups.hpp): its shards draw a row when it is
  // read, and keep it from its first update on. The initial value must be constant, uniform or normal.
  bool on_demand = false;
};

struct VariableRef {
  Output handle{};         // the Variable node, whose name is the variable's; in eager mode the variable
  Output initial_value{};  // "name/initial_value"; in eager mode invalid: the variable has it from the beginning
  DType dtype = DType::invalid;
  Shape shape{};
  std::string name{};

  // The value: always the same node, "name/read". It may run at any time during a step; to see an assignment of the
  // same step, use fresh_read() under Graph::after. In eager mode both read the value of now.
  Output read() const;
  Output fresh_read() const;
  // Each returns the new value.
  Output assign(Output value) const;
  Output assign_add(Output value) const;
  Output assign_sub(Output value) const;
  // Updates rows, or slices value[indices[..., :]], in their order; reductions are those of scatter_elements()
  // (graph/builder/index.hpp). A wrong index leaves the variable as it was.
  Output scatter(Output rows, Output updates, std::string reduction = "none") const;
  Output scatter_nd(Output indices, Output updates, std::string reduction = "none") const;
};

// Adds the nodes "name", "name/initial_value", "name/assign" and "name/read"; in eager mode makes a variable that has
// its initial value, also in a function that is traced, each time it is. Throws invalid_argument if neither an initial
// value nor a fully known shape is given.
VariableRef variable(Graph& graph, VariableOptions options);

struct VariableInfo {
  std::string name{};
  DType dtype = DType::invalid;
  Shape shape{};
  bool trainable = true;
  bool on_demand = false;
  Endpoint handle{};
  Endpoint initial_value{};   // node -1: none (a Variable node added by hand)
  std::string initializer{};  // the node that assigns the initial value, or ""
};

// The variables of a graph, sorted by name. Throws invalid_argument if a node's "_" attributes are wrong.
std::vector<VariableInfo> variables(const Graph& graph);
bool is_on_demand(const Node& variable);  // VariableOptions::on_demand
// Rebuilds the VariableRef of an existing variable. Throws not_found.
VariableRef find_variable(Graph& graph, std::string_view name);

// A NoOp that runs the initializers of all variables that exist now.
Output initializer(Graph& graph, Name name = "initializer");
// The same for variables that have no value yet; the others keep theirs. For variables that several clients share
// (SessionOptions::container), each of which runs it before anything else: the first that comes initializes.
Output initialize_once(Graph& graph, Name name = "initialize_once");

}  // namespace troupe
