// Eager mode: a graph with a runner has no nodes. Ops that are added to it run at once, and its outputs hold their
// values: the functions of the builder API, and gradient functions, work on either kind of graph.
#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include <troupe/graph/gradient.hpp>
#include <troupe/graph/graph.hpp>
#include <troupe/graph/graph_host.hpp>

namespace troupe {

class OpRunner {
 public:
  virtual ~OpRunner() = default;
  // Runs an op, on the device that it asks for; `graph` is that of its outputs. Throws invalid_argument for inputs and
  // attributes that do not fit, like Graph::add(), and the errors of kernels.
  virtual std::vector<Output> run(Graph& graph, const NodeSpec& op) = 0;
  // A constant.
  virtual Output hold(Graph& graph, Tensor value) = 0;
};

// Is told of the ops that this thread runs in eager mode, or adds to a graph within an eager one, while it lives, or
// until leave() (graph/gradients/tape.hpp). Recorders nest: destroy them in the reverse order, on their thread.
class OpRecorder {
 public:
  OpRecorder() : outer_(std::exchange(recorder_of_thread(), this)) {}
  OpRecorder(const OpRecorder&) = delete;
  OpRecorder& operator=(const OpRecorder&) = delete;
  virtual ~OpRecorder() { leave(); }
  // Is told of nothing any more: from now on it may be destroyed anywhere. On its thread, in any order.
  void leave() {
    OpRecorder** place = &recorder_of_thread();
    while (*place && *place != this) place = &(*place)->outer_;
    if (*place) *place = outer_;
  }
  bool is_innermost() const { return recorder_of_thread() == this; }
  virtual void ran(const NodeSpec& op, std::span<const Output> outputs) = 0;
  // Whether it wants to be told of what depends on a value, or on a variable by its handle.
  virtual bool wants(const Output& x) const = 0;
  // Of a function with a gradient of its own: of each x from those of the ys, which are all dense.
  using Backward = std::function<std::vector<Gradient>(const std::vector<Output>& dys)>;
  virtual void ran_function(Graph& graph, std::span<const Output> xs, std::span<const Output> ys,
                            const Backward& backward) = 0;

  // Tells all recorders of this thread, the innermost first.
  template <class Tell>
  static void tell_all(const Tell& tell) {
    for (OpRecorder* recorder = recorder_of_thread(); recorder; recorder = recorder->outer_) tell(*recorder);
  }
  static bool any() { return recorder_of_thread() != nullptr; }
  // Nothing is recorded while it lives.
  class Pause {
   public:
    Pause() : paused_(std::exchange(recorder_of_thread(), nullptr)) {}
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
    ~Pause() { recorder_of_thread() = paused_; }

   private:
    OpRecorder* const paused_;
  };

 private:
  OpRecorder* outer_;
};

}  // namespace troupe
