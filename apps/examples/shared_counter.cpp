// Clients of a cluster that share a variable. Start a node, and any number of these, each with a number of its own and
// the cluster file that the launcher prints:
//   troupe-launch --workers 1 -- troupe-node
//   example_shared_counter FILE CLIENT STEPS
#include <fmt/core.h>

#include <cstdlib>

#include <troupe/troupe.hpp>

namespace {

using namespace troupe;

void run(const char* cluster_file, int client, int steps) {
  Task task({.name = {"client", client}, .networked = true});  // a task that is not in the cluster file
  task.join(ClusterSpec::read(cluster_file), std::chrono::seconds(60));

  Graph graph;
  const VariableRef count = variable(
      graph,
      {.name = "count", .initial_value = constant(graph, Tensor::scalar(1000.0)), .device = "/job:worker/task:0"});
  const Output add = count.assign_add(constant(graph, Tensor::scalar(1.0)));
  const Output initialize = initialize_once(graph);

  Session session(task, graph, {.container = "counters"});
  session.run_targets({initialize});
  for (int i = 0; i < steps; ++i) session.run_targets({add});
  fmt::print("{}\n", session.run(count.read()).item<double>());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "Usage: {} FILE CLIENT STEPS\n", argv[0]);
    return 2;
  }
  try {
    run(argv[1], std::atoi(argv[2]), std::atoi(argv[3]));
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.to_string());
    return 1;
  }
}
