// The builder API: one function per op, so that a graph reads like mathematics. This header has what all families
// share, sources of tensors, and node order.
//
//   Output hidden = relu(matmul(x, w) + b);
//   Output loss = mean(sparse_softmax_cross_entropy(matmul(hidden, v), labels));
//
// Each function adds one node to the graph of its arguments (or to the graph passed in, if they have none) and returns
// its output. Names are optional and relative to the graph's scope. Attributes, dtypes and shapes are checked
// immediately: misuse throws Error naming op and node. Comments state what an op computes where it is not obvious.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <troupe/graph/graph.hpp>

namespace troupe {

using Outputs = std::vector<Output>;
using Integers = std::vector<std::int64_t>;

// The inputs of an op: a braced list, or Outputs. Copies nothing that is moved into it.
class OpInputs {
 public:
  OpInputs() = default;
  OpInputs(Outputs inputs) : inputs_(std::move(inputs)) {}
  template <std::convertible_to<Output>... Input>
  OpInputs(Input&&... inputs) {
    inputs_.reserve(sizeof...(inputs));
    (inputs_.push_back(std::forward<Input>(inputs)), ...);
  }
  Outputs take() && { return std::move(inputs_); }

 private:
  Outputs inputs_;
};

// Any op: adds a node to the graph of the inputs, which in the body of a branch or loop may also be of the graphs
// around it. For ops without a builder function.
Outputs add_outputs(Name op, OpInputs inputs, Attributes attributes = {}, Name name = {});
Output add_op(Name op, OpInputs inputs, Attributes attributes = {}, Name name = {});  // its first output
Outputs outputs_of(Graph& graph, const Node& node);
// Adds a node without outputs, or runs it in eager mode, and returns what controls and targets name it by.
Output add_target(Graph& graph, NodeSpec spec);

Output constant(Graph& graph, Tensor value, Name name = {});
template <class T>
requires(dtype_of<T> != DType::invalid) Output constant(Graph& graph, const T& scalar, Name name = {}) {
  return constant(graph, Tensor::scalar<T>(scalar), std::move(name));
}
template <class T>
requires(dtype_of<T> != DType::invalid) Output constant(Graph& graph, std::initializer_list<T> vector, Name name = {}) {
  return constant(graph, Tensor::vector<T>(vector), std::move(name));
}
// A scalar. Throws invalid_argument if the dtype is not one of numbers, or an integer dtype cannot hold the value.
Tensor scalar_of(DType dtype, double value);
// The same of x's dtype in x's graph. Throws invalid_argument if an integer dtype cannot hold the value.
Output scalar_like(Output x, double value, Name name = {});
// A value to be fed. Its shape may be partly unknown.
Output placeholder(Graph& graph, DType dtype, Shape shape = Shape::unknown_rank(), Name name = {});

// An argument of integers: an i64 tensor, or numbers, which become a constant.
class IntegersArg {
 public:
  IntegersArg(Output tensor) : tensor_(tensor) {}
  IntegersArg(Integers numbers) : numbers_(std::move(numbers)) {}
  IntegersArg(std::initializer_list<std::int64_t> numbers) : numbers_(numbers) {}
  IntegersArg(std::int64_t number) : numbers_{number} {}

  // As a tensor of x's graph: a vector, or a scalar.
  Output in(Output x) const;
  Output scalar_in(Output x) const;
  // The number of integers; kUnknown if the tensor's is not known.
  std::int64_t count() const;
  // The numbers, as far as they are known; null if nothing is known.
  std::optional<std::vector<std::optional<std::int64_t>>> known() const;

 private:
  Output tensor_{};
  Integers numbers_{};
};

Output identity(Output x, Name name = {});
Output stop_gradient(Output x, Name name = {});
// A node without outputs that runs after all of `nodes`; use it as a control or a target.
Output group(Graph& graph, const Outputs& nodes, Name name = {});

}  // namespace troupe
