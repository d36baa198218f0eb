// A library of ops (kernels/op_library.hpp) has its own copies of the code that builds graphs, for its gradient
// functions. What a thread keeps between calls, such as its tapes and the function it traces, is the program's: the
// copies reach it through this table.
#pragma once

#include <memory>
#include <vector>

#include <troupe/graph/graph.hpp>

namespace troupe {

class OpRecorder;

struct GraphHost {
  std::vector<Output> (*apply)(Graph& graph, NodeSpec spec);  // Graph::apply()
  const Node& (*add)(Graph& graph, NodeSpec spec);            // Graph::add()
  std::shared_ptr<void>& (*eager_defaults)();                 // as below
  Graph*& (*being_built)();
  OpRecorder*& (*recorder)();
};

// What this copy of the code uses instead of its own; null in a program, whose table is graph_host(). Hidden: no other
// library of the process has the same one.
extern __attribute__((visibility("hidden"))) const GraphHost* used_graph_host;
const GraphHost& graph_host();

// Of this thread: the defaults of eager graphs (Graph::Defaults), null at first, the innermost graph that is being
// built (graph/builder/functions.hpp), and the innermost recorder (graph/op_runner.hpp).
std::shared_ptr<void>& eager_defaults_of_thread();
Graph*& graph_being_built_of_thread();
OpRecorder*& recorder_of_thread();

}  // namespace troupe
