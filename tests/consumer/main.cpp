// Uses the installed package: builds a graph and prints it. The project has a folder graph of its own.
#include <iostream>

#include "graph/graph.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/kernels/readers/digits.hpp>
#include <troupe/messages/tensor.hpp>

int main() {
  using namespace troupe;
  Graph graph;
  const Output x = constant(graph, Tensor::of<float>(Shape{1, 2}, {1, 2}));
  const Output w = placeholder(graph, DType::f32, Shape{2, 3});
  const Output product = matmul(x, w, {.name = "product"});
  std::cout << own_graph() << "\n"
            << graph.dump() << draw_digits({.train = 10, .test = 0}).train.labels.to_string(10) << "\n"
            << "product has shape " << product.shape().to_string() << "\n";
}
