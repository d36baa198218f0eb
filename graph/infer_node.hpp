// Inference: attributes and outputs of a node, from its op, given attributes and inputs.
#pragma once

#include <optional>

#include <troupe/graph/graph.hpp>
#include <troupe/graph/known_values.hpp>

namespace troupe {

// What is known of the inputs of a node.
class NodeInputs {
 public:
  virtual ~NodeInputs() = default;
  virtual int count() const = 0;
  virtual DType dtype(int index) const = 0;
  virtual const Shape& shape(int index) const = 0;
  virtual const Tensor* constant(int index) const = 0;  // as ShapeContext has them
  virtual std::optional<KnownIntegers> integers(int index) const = 0;
};

// Checks the inputs and attributes of `node` against its op, deduces missing attributes, and sets output types and
// shapes. Throws invalid_argument without naming the node.
void infer_node(const NodeInputs& inputs, Node& node);

// The same for inputs in a graph. The node need not be in it.
void infer_node(const Graph& graph, Node& node);

}  // namespace troupe
