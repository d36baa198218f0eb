// Uses an op of a library by its name, on every task of a cluster:
//   troupe-launch --workers 3 -- example_relu_sigmoid --op-library librelu_sigmoid.so
#include <fmt/core.h>

#include <algorithm>

#include <troupe/troupe.hpp>

namespace {

using namespace troupe;

// y = op(op(... op(x))), once on each worker, and its gradient.
void run(Task& task, int workers) {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, {kUnknown}, "x");
  Output y = x;
  for (int i = 0; i < workers; ++i) {
    const auto there = graph.on_device(fmt::format("/job:{}/task:{}", task.name().job, i));
    y = add_op("ReluSigmoid", {y});
  }
  const Output dx = gradients(std::vector{y}, std::vector{x})[0].dense;
  Session session(task, graph);
  const std::vector<Tensor> found = session.run({{x, Tensor::vector<float>({-1, 0.5f, 2})}}, {y, dx});
  fmt::print("y {}\ndx {}\n", found[0].to_string(), found[1].to_string());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto task = Task::from_command_line(argc, argv);
    const int workers = task->cluster().count("worker");
    std::vector<TaskName> members;
    for (int i = 0; i < workers; ++i) members.push_back({"worker", i});
    if (task->name().index == 0) run(*task, std::max(1, workers));
    if (workers > 1) CollectiveGroup(*task, "all", members).barrier("end");  // the others serve the first until then
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.to_string());
    return 1;
  }
}
