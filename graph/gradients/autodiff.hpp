// Automatic differentiation: adds to a graph the nodes that compute gradients, in reverse mode.
#pragma once

#include <span>
#include <vector>

#include <troupe/graph/gradient.hpp>
#include <troupe/graph/graph.hpp>

namespace troupe {

// The view an op's gradient function has of its node.
class GradientContext {
 public:
  // Of a node with these inputs and outputs; in eager mode `node` tells its op and attributes (EagerValue::source()).
  GradientContext(Graph& graph, const Node& node, std::vector<Output> inputs, std::vector<Output> outputs,
                  std::vector<Output> output_gradients, std::vector<bool> needed)
      : graph_(graph),
        node_(node),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        output_gradients_(std::move(output_gradients)),
        needed_(std::move(needed)),
        input_gradients_(inputs_.size()) {}

  Graph& graph() { return graph_; }
  const Node& node() const { return node_; }
  const Attributes& attributes() const { return node_.attributes; }
  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  int num_outputs() const { return static_cast<int>(outputs_.size()); }
  const Output& input(int i) const { return inputs_[static_cast<std::size_t>(i)]; }
  const Output& output(int i) const { return outputs_[static_cast<std::size_t>(i)]; }
  // Gradient with respect to output i; zeros if no gradient flows into that output.
  Output grad(int i = 0);
  bool has_grad(int i) const { return output_gradients_[static_cast<std::size_t>(i)].valid(); }
  // Whether an x depends on input i. Gradients of other inputs are ignored and need not be set.
  bool needs(int i) const { return needed_[static_cast<std::size_t>(i)]; }

  void set(int i, Output gradient) { input_gradients_[static_cast<std::size_t>(i)] = Gradient{.dense = gradient}; }
  void set_sparse(int i, Output indices, Output values) {
    input_gradients_[static_cast<std::size_t>(i)] = Gradient{.indices = indices, .values = values};
  }
  std::vector<Gradient>& results() { return input_gradients_; }

 private:
  Graph& graph_;
  const Node& node_;
  std::vector<Output> inputs_;
  std::vector<Output> outputs_;
  std::vector<Output> output_gradients_;
  std::vector<bool> needed_;
  std::vector<Gradient> input_gradients_;
};

struct GradientOptions {
  std::vector<Output> grad_ys{};         // gradients of ys; default: ones
  std::vector<Output> stop_gradients{};  // treated as constants
};

// A gradient as one dense tensor like `x`; zeros if no gradient flows.
Output dense(const Gradient& gradient, Output x);

// d(sum of ys)/dx for each x. Multiple paths are summed in a fixed order. An x that no y depends on gets an empty
// Gradient. New nodes go under the scope "gradients/" + the name, relative to the current scope, of the node that they
// differentiate, and on its device. Throws unimplemented naming the node if an op on the path has no gradient;
// invalid_argument for ys that are not floating.
std::vector<Gradient> gradients(std::span<const Output> ys, std::span<const Output> xs,
                                const GradientOptions& options = {});

}  // namespace troupe
