// Traces a function of eager mode: while it runs, what it would compute becomes nodes of a graph.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <troupe/graph/builder/functions.hpp>
#include <troupe/graph/graph.hpp>
#include <troupe/scheduler/run/executor.hpp>

namespace troupe {

struct TracedArgument {
  DType dtype = DType::invalid;
  Shape shape{};  // dimensions may be unknown
  bool operator==(const TracedArgument&) const = default;
};

class FunctionTrace {
 public:
  // Runs `body` once, on this thread. Throws what it throws, and invalid_argument for results that are not tensors of
  // it. `device`: of ops that ask for none; "": any.
  FunctionTrace(Graph& eager, const std::vector<TracedArgument>& arguments, const std::string& device,
                const std::function<Outputs(const Outputs&)>& body);
  FunctionTrace(const FunctionTrace&) = delete;
  FunctionTrace& operator=(const FunctionTrace&) = delete;

  // The trace that ops of `eager` which this thread calls belong to. Null: they run.
  static FunctionTrace* receiving(const Graph& eager) { return current && current->builds(eager) ? current : nullptr; }
  std::vector<Output> add(const NodeSpec& op);
  Output add_constant(Tensor value);

  Graph& graph() { return graph_; }
  // Of what this thread traces; null: nothing.
  static std::shared_ptr<const Graph> graph_of_thread() { return current ? current->shared_graph_ : nullptr; }
  const Outputs& arguments() const { return arguments_; }
  const Outputs& results() const { return results_; }
  const Outputs& effects() const { return effects_; }  // nodes that run whether their outputs are used or not
  // A floating value of eager mode that it reads, or a variable; in the order of their first use. Other values are
  // constants of the graph.
  struct Capture {
    Output value{};
    Outputs inside{};  // a placeholder; of a variable all that was read from it
    bool is_variable() const { return value.dtype() == DType::resource; }
  };
  const std::vector<Capture>& captures() const { return captures_; }
  const std::shared_ptr<VariableStore>& variables() const { return variables_; }

 private:
  bool builds(const Graph& eager) const;
  Output bring_in(const Output& value);
  void order_effects();

  static inline constinit thread_local FunctionTrace* current = nullptr;

  Graph& eager_;
  const std::shared_ptr<Graph> shared_graph_;
  Graph& graph_ = *shared_graph_;
  Outputs arguments_, results_, effects_;
  std::vector<Capture> captures_;
  std::map<const EagerValue*, Output> captured_;
  Outputs constants_;  // captured values that are constants of the graph
  const std::shared_ptr<VariableStore> variables_ = std::make_shared<VariableStore>();
};

}  // namespace troupe
