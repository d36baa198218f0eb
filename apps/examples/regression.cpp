// Fits a line to points: a graph built by hand, its gradients, and a session that runs it.
//   example_regression
#include <fmt/core.h>

#include <troupe/troupe.hpp>

int main() {
  using namespace troupe;
  try {
    Graph graph;
    const Output x = placeholder(graph, DType::f32, {kUnknown}, "x");
    const Output y = placeholder(graph, DType::f32, {kUnknown}, "y");
    const VariableRef slope = variable(graph, {.name = "slope", .shape = Shape{}});
    const VariableRef offset = variable(graph, {.name = "offset", .shape = Shape{}});
    const Output loss = mean(squared_difference(x * slope.read() + offset.read(), y));
    const Output train = minimize(loss, optimizers::SGD{.learning_rate = 0.1});
    const Output init = initializer(graph);

    Session session(graph);
    session.run_targets({init});
    const Feeds points = {{x, Tensor::vector<float>({-1, 0, 1, 2})}, {y, Tensor::vector<float>({-1, 2, 5, 8})}};
    for (int step = 0; step <= 200; ++step) {
      const float now = session.run(points, {loss}, {train})[0].item<float>();
      if (step % 100 == 0) fmt::print("step {}: loss {:.2f}\n", step, now);
    }
    fmt::print("y = {:.2f} x + {:.2f}\n", session.run(slope.read()).item<float>(),
               session.run(offset.read()).item<float>());
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.to_string());
    return 1;
  }
}
