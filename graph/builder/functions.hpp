// Builds the functions of control flow. A body may read tensors of the graphs around it: they become further arguments
// of the function (constants are copied instead), and the caller passes them as further inputs.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <troupe/graph/builder/core.hpp>
#include <troupe/graph/op_runner.hpp>

namespace troupe {

// The innermost graph that is being built on this thread: the body of a function, or a function that is traced. Null:
// none.
Graph* graph_being_built();

// Makes a graph the innermost one while it lives. Destroy them in the reverse order.
class BuildScope {
 public:
  explicit BuildScope(Graph* graph);
  ~BuildScope();
  BuildScope(const BuildScope&) = delete;
  BuildScope& operator=(const BuildScope&) = delete;

 private:
  Graph* const outer_;
};

// While it lives, nothing is traced or recorded on this thread: ops of an eager graph run at once. For what happens
// once in a function that is traced, such as making a variable (TensorFlow's tf.init_scope).
class InitScope {
 private:
  const BuildScope scope_{nullptr};
  const OpRecorder::Pause pause_{};
};

class FunctionBuilder {
 public:
  // Nodes of the body are named "name/...", unique in the whole program. `outer` must outlive this object.
  FunctionBuilder(Graph& outer, std::string name);
  ~FunctionBuilder();
  FunctionBuilder(const FunctionBuilder&) = delete;
  FunctionBuilder& operator=(const FunctionBuilder&) = delete;

  Graph& body() { return *body_; }
  // Arguments come before all that is brought in.
  Output argument(DType dtype, const Shape& shape);
  // What was brought in so far, as tensors of the outer graph.
  const Outputs& captures() const { return captures_; }
  // Brings in a tensor of the outer graph, once.
  Output bring_in(const Output& outer);
  // Ends the function, whose results may be tensors of the graphs around it. Throws invalid_argument, naming the node,
  // for what cannot be in a body: variables, what waits or crosses devices, other devices than the one around.
  Function finish(const Outputs& results);

 private:
  Output add_argument(DType dtype, const Shape& shape);

  Graph& outer_;
  std::shared_ptr<Graph> body_;
  std::optional<BuildScope> building_;
  Graph::ScopedDefaults scope_;
  Function function_;
  Outputs captures_;
  std::map<std::pair<const EagerValue*, Endpoint>, Output> brought_in_;
  Outputs kept_;  // values of eager mode, so that no other one gets the place in memory of one that was brought in
};

// Adds the nodes of a function to `graph`, with names below `scope`; `inputs` take the place of its arguments. Returns
// its results. Throws invalid_argument for inputs of other dtypes.
Outputs inline_function(Graph& graph, const Function& function, const Outputs& inputs, const std::string& scope);

// Adds `from`'s functions that the attributes of a node name, and those that these call, to `to`, as far as missing.
void copy_functions(const Graph& from, const Node& node, Graph& to);

// The graph that a branch or loop with these inputs is added to: that of the function being built on this thread, if
// the inputs are of graphs around it; otherwise the innermost of theirs.
Graph& graph_for(const Outputs& inputs);

}  // namespace troupe
