#include "tests/graph/layers/layer_values.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/passes/prune.hpp>

namespace troupe::testing {

Tensor input_pattern(const Shape& shape, int salt) {
  Tensor t(DType::f32, shape);
  std::int64_t i = 0;
  for (float& v : t.mutable_values<float>()) v = static_cast<float>((7 * i++ + 2 + 3 * salt) % 11 - 5) / 4;
  return t;
}

Tensor weight_pattern(const Shape& shape, int salt, bool positive) {
  Tensor t(DType::f32, shape);
  std::int64_t i = 0;
  for (float& v : t.mutable_values<float>()) {
    v = static_cast<float>((5 * i++ + 3 * salt) % 13 - 6) / 8;
    if (positive) v = std::abs(v);
  }
  return t;
}

Applied apply_layer(const LayerPtr& layer, const std::vector<Tensor>& inputs, bool training) {
  Graph graph;
  VariablePool variables;
  std::vector<RunningAverage> averages;
  LayerContext context{.graph = graph, .training = training, .variables = variables, .averages = &averages};
  Values given;
  Symbols symbols;
  Outputs xs;
  for (const Tensor& x : inputs) {
    const std::string name = "x" + std::to_string(xs.size());
    const Shape example = x.shape().sub(1, x.shape().rank());
    symbols.push_back(input(name, example, x.dtype()));
    xs.push_back(placeholder(graph, x.dtype(), Shape{kUnknown}.concatenated(example), name));
    given[name] = x;
  }
  const Network network(symbols, layer.call(symbols));
  const Outputs ys = network.apply(context, xs);
  Applied applied;
  std::vector<Endpoint> fetches;
  for (const Output& y : ys) fetches.push_back({y.node, y.index});
  int salt = 0;
  for (const VariableRef& v : variables.all()) {
    given[v.name] = weight_pattern(v.shape, salt++, v.name.ends_with("variance"));
    applied.variables.push_back(v.name + v.shape.to_string());
  }
  const Values values = evaluate(*prune(graph, fetches, {}), given);
  for (const Output& y : ys) applied.outputs.push_back(values.at(y.name()));
  return applied;
}

void expect_near(const Tensor& y, const Shape& shape, const std::vector<double>& values, double tolerance) {
  ASSERT_TRUE(y.valid());
  EXPECT_EQ(y.shape(), shape) << y.shape().to_string();
  ASSERT_EQ(static_cast<std::size_t>(y.num_elements()), values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(static_cast<double>(y.values<float>()[i]), values[i], tolerance * std::max(1.0, std::abs(values[i])))
        << "element " << i;
}

}  // namespace troupe::testing
