// A program whose tasks are static: they end after main(), when the thread-local objects of its thread have ended. Its
// exit code says whether all was well.
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>

#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/eager/eager.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/array.hpp>
#include <troupe/graph/builder/math.hpp>

namespace {

using namespace troupe;

Task networked(TaskOptions{.name = {"worker", 0}, .networked = true});
std::unique_ptr<Task> made_by_a_thread;
std::optional<Session> session;
Eager eager;

Output doubled(Graph& graph) { return constant(graph, Tensor::of<float>({2}, {1, 2})) * 2.0; }
bool is_right(const Tensor& value) { return value.values<float>()[1] == 4; }

}  // namespace

int main() {
  std::thread([] { made_by_a_thread = std::make_unique<Task>(); }).join();
  Graph graph;
  const Output output = doubled(graph);
  session.emplace(*made_by_a_thread, graph);  // spawns on this thread
  return is_right(session->run(output)) && is_right(doubled(eager).value()) ? EXIT_SUCCESS : EXIT_FAILURE;
}
