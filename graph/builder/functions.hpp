// Builds the functions of control flow. A body may read tensors of the graphs around it: they become further arguments
// of the function (constants are copied instead), and the caller passes them as further inputs.
#pragma once

#include <map>
#include <memory>
#include <string>

#include <troupe/graph/builder/core.hpp>

namespace troupe {

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
  // Ends the function, whose results may be tensors of the graphs around it.
  Function finish(const Outputs& results);

 private:
  Output add_argument(DType dtype, const Shape& shape);

  Graph& outer_;
  Graph* const built_before_;  // on this thread
  std::shared_ptr<Graph> body_;
  Graph::ScopedDefaults scope_;
  Function function_;
  Outputs captures_;
  std::map<Endpoint, Output> brought_in_;
};

// The graph that a branch or loop with these inputs is added to: that of the function being built on this thread, if
// the inputs are of graphs around it; otherwise the innermost of theirs.
Graph& graph_for(const Outputs& inputs);

}  // namespace troupe
