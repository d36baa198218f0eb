#include "troupe/graph/graph_host.hpp"

namespace troupe {

constinit const GraphHost* used_graph_host = nullptr;

const GraphHost& graph_host() {
  static constexpr GraphHost own{
      .apply = [](Graph& graph, NodeSpec spec) { return graph.apply(std::move(spec)); },
      .add = [](Graph& graph, NodeSpec spec) -> const Node& { return graph.add(std::move(spec)); },
      .eager_defaults = eager_defaults_of_thread,
      .being_built = graph_being_built_of_thread,
      .recorder = recorder_of_thread};
  return own;
}

std::shared_ptr<void>& eager_defaults_of_thread() {
  if (used_graph_host) return used_graph_host->eager_defaults();
  static thread_local std::shared_ptr<void> defaults;
  return defaults;
}

Graph*& graph_being_built_of_thread() {
  if (used_graph_host) return used_graph_host->being_built();
  static thread_local constinit Graph* being_built = nullptr;
  return being_built;
}

OpRecorder*& recorder_of_thread() {
  if (used_graph_host) return used_graph_host->recorder();
  static thread_local constinit OpRecorder* innermost = nullptr;
  return innermost;
}

}  // namespace troupe
