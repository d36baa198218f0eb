// Compares gradients with differences of values, in float64.
#pragma once

#include <functional>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "tests/kernels/evaluate_graph.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/gradients/autodiff.hpp>

namespace troupe::testing {

// Builds results from float64 inputs.
using BuildFn = std::function<Outputs(Graph&, const Outputs&)>;

struct GradientCase {
  std::string name;
  std::vector<Shape> shapes;
  BuildFn build;
  double low = -2;
  double high = 2;
  bool twice = true;    // check the gradient of the gradient as well
  bool dynamic = true;  // check with dimensions that are unknown while the graph is built, too
  bool prints = false;  // to stderr: what, is not checked
  // In eager mode: the bits of a graph; other roundings, as gradients of a loop are summed iteration by iteration, or
  // as shapes that are known late choose other ops; or other random numbers.
  enum class Eager { same_bits, rounds, draws } eager = Eager::same_bits;
};

// For gtest.
inline void PrintTo(const GradientCase& c, std::ostream* out) { *out << c.name; }

inline Tensor random_tensor(const Shape& shape, double low, double high, std::mt19937_64& random) {
  Tensor out(DType::f64, shape);
  std::uniform_real_distribution<double> values(low, high);
  for (double& v : out.mutable_values<double>()) v = values(random);
  return out;
}

// The sum of all results, each element weighted by a number of its own: no two derivatives can be mistaken.
inline Output weighted_sum(Graph& graph, const Outputs& results) {
  Outputs sums;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Output flat = reshape(results[i], Shape{kUnknown});
    const Output n = cast(element_count(flat), DType::f64);
    const Output numbers = range(constant(graph, 0.0), n, constant(graph, 1.0));
    // In [0.5, 1.5], irregular.
    const Output weights = 1 + 0.5 * tanh(10 * (square(numbers * 0.61 + static_cast<double>(i) * 0.3) -
                                                floor(square(numbers * 0.61 + static_cast<double>(i) * 0.3))) -
                                          5);
    sums.push_back(sum(flat * stop_gradient(weights)));
  }
  return add_n(sums);
}

// The gradients of the weighted sum of the results: what a second differentiation is taken of.
inline Outputs first_gradients(Graph& graph, const BuildFn& build, const Outputs& xs) {
  const Outputs ys = {weighted_sum(graph, build(graph, xs))};
  Outputs out;
  const std::vector<Gradient> found = gradients(ys, xs);
  for (std::size_t i = 0; i < xs.size(); ++i)
    if (found[i]) out.push_back(dense(found[i], xs[i]));
  return out;
}

// Derivatives of `loss` for the elements of input `at`: five-point stencil, error O(h^4).
inline std::vector<double> differences(GraphEvaluator& evaluator, Output loss, const Outputs& xs,
                                       const std::vector<Tensor>& inputs, std::size_t at) {
  const double h = 1e-4;  // small, so that no kink lies in between
  const auto value = [&](std::int64_t element, double offset) {
    Feeds feeds;
    for (std::size_t i = 0; i < xs.size(); ++i) feeds[{xs[i].node, xs[i].index}] = inputs[i];
    Tensor moved = inputs[at].clone();
    moved.mutable_data<double>()[element] += offset;
    feeds[{xs[at].node, xs[at].index}] = moved;
    return evaluator.run(loss, feeds).item<double>();
  };
  std::vector<double> out;
  for (std::int64_t e = 0; e < inputs[at].num_elements(); ++e)
    out.push_back((8 * (value(e, h) - value(e, -h)) - (value(e, 2 * h) - value(e, -2 * h))) / (12 * h));
  return out;
}

// "" or what differs.
inline std::string check_gradients(const GradientCase& c, const BuildFn& build, bool dynamic) {
  Graph graph;
  std::mt19937_64 random(7);
  Outputs xs;
  std::vector<Tensor> inputs;
  for (const Shape& shape : c.shapes) {
    xs.push_back(placeholder(graph, DType::f64, dynamic ? Shape::unknown(shape.rank()) : shape));
    inputs.push_back(random_tensor(shape, c.low, c.high, random));
  }
  const Output loss = weighted_sum(graph, build(graph, xs));
  const std::vector<Gradient> found = gradients(Outputs{loss}, xs);
  GraphEvaluator evaluator;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    Feeds feeds;
    for (std::size_t k = 0; k < xs.size(); ++k) feeds[{xs[k].node, xs[k].index}] = inputs[k];
    const Tensor gradient = evaluator.run(dense(found[i], xs[i]), feeds);
    if (!(gradient.shape() == c.shapes[i])) return fmt::format("gradient {} is {}", i, gradient.shape().to_string());
    const std::vector<double> expected = differences(evaluator, loss, xs, inputs, i);
    for (std::size_t e = 0; e < expected.size(); ++e) {
      const double got = gradient.values<double>()[e];
      if (!(std::abs(got - expected[e]) <= 1e-6 * std::max({std::abs(got), std::abs(expected[e]), 1e-3})))
        return fmt::format("input {}, element {}: the gradient is {}, differences give {}", i, e, got, expected[e]);
    }
  }
  return "";
}

}  // namespace troupe::testing
