// Functions that are traced: their ops become a graph once for each kind of arguments, which later calls run as one
// step. It has the bits of the same ops one by one.
//
//   TracedFunction step(eager, [&](const Outputs& in) -> Outputs {
//     return {optimizer.minimize([&] { return mean(square(matmul(in[0], w.read()) - in[1])); }, {w})};
//   });
//   for (...) loss = step({x, y})[0];
//
// The function runs as C++ only while it is traced, so what it does beside ops happens then alone: C++'s `if` and `for`
// decide by what is known without tensors' values, if_else() and while_loop() by these. Variables that it reads and
// changes are those of eager mode, in the order of the program; so are print() and assertions. Other values that it
// reads from outside are those of the time of tracing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/actors/eager/eager.hpp>
#include <troupe/graph/builder/core.hpp>

namespace troupe {

struct FunctionOptions {
  std::string name = "function";  // in errors and warnings
  // Sizes that differ between calls, of arguments with as many dimensions, become unknown in one trace for all,
  // instead of another for each.
  bool relax_shapes = false;
  std::size_t most_traces = 64;  // that are kept; for another one that used least recently is dropped
  // Called with the reason when it is traced again and again: the fifth time, and when that number has doubled.
  // Default: a line on stderr.
  std::function<void(const std::string&)> on_warning{};
};

// Thread-safe: one thread traces at a time, and only the first call of its kind.
class TracedFunction {
 public:
  using Body = std::function<Outputs(const Outputs&)>;
  // With what the caller wants to know of a trace, such as the form of its results: all calls that use it return it.
  struct Formed {
    Outputs results{};
    std::shared_ptr<const void> form{};
  };
  using FormedBody = std::function<Formed(const Outputs&)>;

  // The Eager must outlive it. A tensor of a trace has a graph as long as traced_graph() is kept.
  TracedFunction(Eager& eager, Body body, FunctionOptions options = {});
  // Without a body: for call().
  TracedFunction(Eager& eager, FunctionOptions options);
  ~TracedFunction();
  TracedFunction(const TracedFunction&) = delete;
  TracedFunction& operator=(const TracedFunction&) = delete;

  // `key` stands for whatever else the function decides by: each has its own traces. Gradients flow through it; where
  // several tapes record, it runs op by op. In a function that is traced, and on tensors of a graph, its ops become
  // part of that. Throws invalid_argument for variables among the inputs, what the body throws while it is traced, and
  // the errors of its ops.
  Outputs operator()(const Outputs& inputs, std::string_view key = {});
  // The same with the body of this call, which may hold what its key stands for. Of the inputs in `open_rows`, by their
  // places, one trace serves any number of rows: those of a sparse tensor.
  Formed call(const Outputs& inputs, std::string_view key, const FormedBody& body,
              const std::vector<int>& open_rows = {});

  // How often it was traced.
  std::uint64_t traces() const;
  // The traces that are kept, and how the one for these inputs, which is made if missing, is compiled and run
  // (Session::explain).
  std::string explain(const Outputs& inputs, std::string_view key = {});
  std::string explain(const Outputs& inputs, std::string_view key, const FormedBody& body,
                      const std::vector<int>& open_rows = {});

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The graph of what this thread traces; null: it traces nothing.
std::shared_ptr<const Graph> traced_graph();

}  // namespace troupe
