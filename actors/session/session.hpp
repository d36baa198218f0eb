// The client's side: runs a graph on the devices of a task, or of a whole cluster.
//
//   Graph graph;
//   Output x = placeholder(graph, DType::f32, {kUnknown, 2}, "x");
//   Output y = matmul(x, constant(graph, Tensor::of<float>({2, 1}, {1, 2}))) + 1.0;
//   Session session(graph);                                  // a task of its own: one CPU device
//   Tensor result = session.run({{x, Tensor::of<float>({1, 2}, {3, 4})}}, {y})[0];
//
// Thread-safe except extend(). The first run of a (feeds, fetches, targets) combination compiles and registers it;
// concurrent runs of the same one wait, others do not, and later ones only look it up.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <troupe/actors/steps/training_step.hpp>
#include <troupe/graph/graph.hpp>
#include <troupe/messages/device_name.hpp>
#include <troupe/messages/ids.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

class PrivateDevice;
class Task;
class VariableStore;

// Passes that make predictions faster and change bits, within the tolerance that each states. `explain` tells what they
// did.
struct InferencePasses {
  // "quantized_products", "fold_batch_norm", "fuse_attention", "fuse_layer_norm", "gelu_inside", "bias_inside",
  // "residual_inside" (headers of these names in graph/passes); of those that change no bits, "shape_classes" and
  // "shape_arithmetic" (fold_shapes.hpp). Unknown ones: not_found.
  std::set<std::string> switched_off{};
  // Plans that a call whose feeds have open dimensions may have for the shapes that it is fed, beside the general one:
  // in them all that follows from shapes is computed, and memory planned, in advance. Results have the same bits. A
  // shape that is fed for the third time gets a plan, made on another thread while the general plan serves it; that
  // used least recently is dropped for it. With each that is dropped the next needs twice as many steps, so that shapes
  // that never come back cost nothing (actors/session/shape_classes.hpp). 8 are the batch sizes or lengths that a
  // server rounds to. Plans share constants and their layouts, and only the last one used keeps memory for its values.
  // Calls that run on several devices or tasks have the general plan only. 0: none.
  std::size_t shape_classes = 8;
  // Called on another thread with a line for shapes that have got a plan, or cannot have one and why.
  std::function<void(const std::string&)> on_shapes{};
};

struct SessionOptions {
  std::uint64_t seed = 0;      // for random ops
  bool optimize = true;        // folds constants, shares common subexpressions
  bool soft_placement = true;  // replaces a missing device by one of the same task and reports it to on_warning
  // bf16 or f16: f32 products are computed in that precision (graph/passes/mixed_precision.hpp). Variables, feeds and
  // fetches keep theirs. Training in f16 needs a scaled loss (graph/optimizers/loss_scaling.hpp).
  DType precision = DType::f32;
  // Fails a step at the first node that makes a NaN or an infinity, naming it, its inputs and the step
  // (graph/passes/check_numerics.hpp).
  bool check_numerics = false;
  // For graphs that only predict; what is constant in them counts, so freeze() models first (graph/passes/freeze.hpp).
  std::optional<InferencePasses> inference{};
  // The only device of its graphs (actors/cluster/private_device.hpp), which the session keeps. Null: those of the task
  // and its cluster.
  std::shared_ptr<PrivateDevice> device{};
  std::chrono::nanoseconds timeout{0};  // default for runs without one; 0: none
  std::chrono::nanoseconds build_timeout =
      std::chrono::seconds(120);   // for a task to build its part of a graph, or to end the session
  std::vector<TaskName> shards{};  // tasks that own the shards, for graphs with pulls and pushes
  // Sessions with the same container, of any client of the cluster, share the variables of the same name and device.
  // They outlive their sessions, until reset_container() or the end of their task. "": variables of this session only,
  // which end with it. Initialize them by initialize_once() (graph/builder/variable.hpp): the first client does it.
  std::string container{};
  // Variables that exist already, by the names of their nodes; the session uses them on this task. Null: none.
  std::shared_ptr<VariableStore> variables{};
  // Called when a call is compiled, with its placement: a line for each device and its nodes.
  std::function<void(const std::string&)> on_placement{};
  // Called once for each requested device replaced by soft placement. Default: a line on stderr.
  std::function<void(const std::string&)> on_warning{};
};

struct RunOptions {
  // A step still running after this throws deadline_exceeded. 0: the session's
  std::chrono::nanoseconds timeout{0};
  // The seed input of random ops. Default: the number of the step in this session, slot 0.
  std::int64_t random_step = -1;
  std::optional<std::uint64_t> seed{};  // default: that of the session
  std::uint32_t random_slot = 0;
  TrainingStep training{};
};

using Feeds = std::vector<std::pair<Output, Tensor>>;

// A compiled call with feeds and fetches by position. Cheap to copy; valid as long as its session.
class Callable {
 public:
  // Throws the first error of any task in the step.
  std::vector<Tensor> operator()(std::vector<Tensor> feeds, const RunOptions& options = {}) const;
  // Returns at once; the future gets the result or exception of the call above. Dropping it does not end the step.
  std::future<std::vector<Tensor>> async(std::vector<Tensor> feeds, const RunOptions& options = {}) const;
  // Whether steps without a deadline run one after the other, in the order they were started: true if one device of
  // this task runs the whole graph. Otherwise concurrent steps overlap: they see variables before or after each other's
  // updates.
  bool in_order() const;
  // Of its steps: with the id of one, it names the step in the cluster.
  SessionId session() const;
  // Passes the result, or the error, to `done` on a runtime thread: keep it short. Returns the step's id.
  StepId start(std::vector<Tensor> feeds, const RunOptions& options, std::function<void(StepResult)> done) const;
  // Same, but runs the step on this thread, before it returns, if one idle device runs the whole graph and the step has
  // no timeout.
  StepId start_here(std::vector<Tensor> feeds, const RunOptions& options, std::function<void(StepResult)> done) const;

 private:
  friend class Session;
  struct State;
  enum class Wait { no, yes };
  StepId start(std::vector<Tensor> feeds, const RunOptions& options, std::function<void(StepResult)> done,
               Wait wait) const;
  std::shared_ptr<State> state_;
};

class Session {
 public:
  // Creates a task of its own. Copies `graph`: later additions reach the session through extend(). Large constants of
  // this task stay in the memory of their tensors, which must not be written to while the session lives.
  explicit Session(const Graph& graph, SessionOptions options = {});
  // Runs on `task`, which must outlive the session: on its devices and, in a cluster, those of all tasks.
  Session(Task& task, const Graph& graph, SessionOptions options = {});
  ~Session();  // closes
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Runs one step and returns the fetches in order. Any tensor may be fed, not only placeholders; targets run without a
  // result. Lists (messages/tensor_list.hpp) are fed to and fetched from nodes of this task only. Throws Error: invalid
  // use, or the step's first error with its node, op, device and task.
  std::vector<Tensor> run(const Feeds& feeds, const std::vector<Output>& fetches,
                          const std::vector<Output>& targets = {}, const RunOptions& options = {});
  std::vector<Tensor> run(const std::vector<Output>& fetches) { return run({}, fetches); }
  // The first output only.
  Tensor run(const Feeds& feeds, const Output& fetch) { return run(feeds, std::vector<Output>{fetch})[0]; }
  Tensor run(const Output& fetch) { return run({}, std::vector<Output>{fetch})[0]; }
  // Runs nodes for their effects, like an initializer.
  void run_targets(const std::vector<Output>& targets) { run({}, {}, targets); }

  Callable callable(const std::vector<Output>& feeds, const std::vector<Output>& fetches,
                    const std::vector<Output>& targets = {});

  // Cancels a running step; its run throws Code::cancelled.
  void cancel(StepId step);

  // Adopts the nodes added to `graph`. Throws invalid_argument if it is not the session's graph with nodes appended.
  void extend(const Graph& graph);

  // Ends the session on all tasks: cancels steps in flight, frees variables, and makes calls that other threads are
  // compiling throw. May be called twice.
  void close();

  // Explains how a call is compiled and run, as text: the passes over its graph, with times and node counts before and
  // after each; the device of each node; and the plan of each device: its segments, their dependencies, and its memory.
  // Of a call that has been made also the shapes that have plans of their own, with the steps that these have run.
  std::string explain(const std::vector<Output>& feeds, const std::vector<Output>& fetches,
                      const std::vector<Output>& targets = {});

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Forgets the variables of a container on all tasks of the task's cluster. Sessions that have used them keep them until
// they close; later sessions find none. Throws unavailable, naming the task, for one that is gone.
void reset_container(Task& task, const std::string& container);

}  // namespace troupe
