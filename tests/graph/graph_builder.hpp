// What the tests of passes share: short ways to add nodes of the standard ops.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <troupe/graph/graph.hpp>

namespace troupe {

struct GraphBuilder {
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  Graph& g = *graph;

  // The first output of a new node; for a node without outputs, good as a control edge.
  Output add(const std::string& op, const std::string& name, std::vector<Output> inputs = {},
             Attributes attributes = {}, const std::string& device = "") {
    const Node& node = g.add(
        {.op = op, .name = name, .inputs = std::move(inputs), .attributes = std::move(attributes), .device = device});
    return g.output(node);
  }
  Output placeholder(const std::string& name, Shape shape = {}) {
    return add("Placeholder", name, {}, {{"T", DType::f32}, {"shape", shape}});
  }
  Output constant(const std::string& name, float value) { return constant(name, Tensor::scalar(value)); }
  Output constant(const std::string& name, const Tensor& value) {
    return add("Const", name, {}, {{"T", value.dtype()}, {"value", value}});
  }
  Output variable(const std::string& name, Shape shape, const std::string& device = "") {
    return add("Variable", name, {}, {{"T", DType::f32}, {"shape", shape}}, device);
  }
  Output read(const std::string& name, Output handle) {
    return add("ReadVariable", name, {handle}, {{"T", DType::f32}});
  }
};

// "code: message" of the Error that f throws, or "no error".
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.to_string();
  }
  return "no error";
}

}  // namespace troupe
