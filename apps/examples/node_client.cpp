// Runs part of a graph on another process, which hosts devices for clients. Start two of these, and give this program
// the cluster file that the launcher prints:
//   troupe-launch --workers 2 -- troupe-node
//   example_node_client FILE
#include <fmt/core.h>

#include <troupe/troupe.hpp>

namespace {

using namespace troupe;

void run(const char* cluster_file) {
  Task task({.name = {"client", 0}, .networked = true});  // a task that is not in the cluster file
  task.join(ClusterSpec::read(cluster_file), std::chrono::seconds(60));
  for (const DeviceInfo& device : task.devices()) fmt::print("{}\n", device.name.to_string());

  Graph graph;
  const Output x = placeholder(graph, DType::f32, {kUnknown, 2}, "x");
  Output squared, y;
  {
    const auto there = graph.on_device("/job:worker/task:0");
    squared = square(x);
  }
  {
    const auto there = graph.on_device("/job:worker/task:1");
    y = matmul(squared, constant(graph, Tensor::of<float>({2, 1}, {1, 10})));
  }
  Session session(task, graph);
  fmt::print("{}\n", session.run({{x, Tensor::of<float>({2, 2}, {1, 2, 3, 4})}}, y).to_string());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "Usage: {} FILE\n", argv[0]);
    return 2;
  }
  try {
    run(argv[1]);
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.to_string());
    return 1;
  }
}
