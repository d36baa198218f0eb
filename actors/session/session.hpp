// The client's side: runs a graph on the devices of a task, or of a whole cluster.
//
//   Graph graph;
//   Output x = placeholder(graph, DType::f32, {kUnknown, 2}, "x");
//   Output y = matmul(x, constant(graph, Tensor::of<float>({2, 1}, {1, 2}))) + 1.0;
//   Session session(graph);                                  // a task of its own: one CPU device
//   Tensor result = session.run({{x, Tensor::of<float>({1, 2}, {3, 4})}}, {y})[0];
//
// Thread-safe but for extend(). The first run of a (feeds, fetches, targets) compiles it and registers it with the
// tasks; later ones only look it up, and those that come meanwhile wait for it. Runs of others do not.
#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <troupe/actors/steps/training_step.hpp>
#include <troupe/graph/graph.hpp>
#include <troupe/messages/device_name.hpp>
#include <troupe/messages/ids.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

class Task;

struct SessionOptions {
  std::uint64_t seed = 0;      // of random ops
  bool optimize = true;        // fold constants, share common subexpressions
  bool soft_placement = true;  // a device that is not there is replaced by one of the same task; on_warning tells
  // bf16 or f16: what graphs have as products of f32 is computed in that (graph/passes/mixed_precision.hpp). Variables,
  // feeds and fetches stay as they are. Training in f16 needs a scaled loss (graph/optimizers/loss_scaling.hpp).
  DType precision = DType::f32;
  std::chrono::nanoseconds timeout{0};  // of each run that names none; 0: none
  std::chrono::nanoseconds build_timeout =
      std::chrono::seconds(120);   // of a task that builds its part of a graph, or ends the session
  std::vector<TaskName> shards{};  // tasks that own the shards, if graphs pull and push
  // Told where the nodes of each call run, a device and its nodes line by line, when it is compiled.
  std::function<void(const std::string&)> on_placement{};
  // Told, once for each device, of a device that soft placement has replaced. Default: a line on stderr.
  std::function<void(const std::string&)> on_warning{};
};

struct RunOptions {
  // A step that has not ended by then throws deadline_exceeded. 0: the session's
  std::chrono::nanoseconds timeout{0};
  // What random ops derive their values from. Default: the number of the step in this session, slot 0.
  std::int64_t random_step = -1;
  std::uint32_t random_slot = 0;
  TrainingStep training{};
};

using Feeds = std::vector<std::pair<Output, Tensor>>;

// A compiled call: feeds and fetches are by position. Cheap to copy; valid as long as its session.
class Callable {
 public:
  // Throws what went wrong in the step, the first error of any task.
  std::vector<Tensor> operator()(std::vector<Tensor> feeds, const RunOptions& options = {}) const;
  // Returns at once; the future has what the call above returns or throws. Forgetting it does not end the step.
  std::future<std::vector<Tensor>> async(std::vector<Tensor> feeds, const RunOptions& options = {}) const;
  // Do steps without a deadline run one after the other, in the order they were started? So it is if one device of this
  // task runs all of the graph. Else steps in flight together overlap: they see variables before or after each other's
  // updates.
  bool in_order() const;
  // The result, or the error, comes through `done`, on a thread of the runtime: keep it short. Returns the step's id.
  StepId start(std::vector<Tensor> feeds, const RunOptions& options, std::function<void(StepResult)> done) const;

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
  // On a task of its own. `graph` is copied: what is added to it later reaches the session through extend().
  explicit Session(const Graph& graph, SessionOptions options = {});
  // On `task`, which must outlive the session: its devices and, if it belongs to a cluster, those of all tasks.
  Session(Task& task, const Graph& graph, SessionOptions options = {});
  ~Session();  // closes
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Runs one step and returns the fetches in order. Any tensor may be fed, not only placeholders; targets run without a
  // result. Throws Error: misuse, or the step's first error with its node, op, device and task.
  std::vector<Tensor> run(const Feeds& feeds, const std::vector<Output>& fetches,
                          const std::vector<Output>& targets = {}, const RunOptions& options = {});
  std::vector<Tensor> run(const std::vector<Output>& fetches) { return run({}, fetches); }
  // The first output only.
  Tensor run(const Feeds& feeds, const Output& fetch) { return run(feeds, std::vector<Output>{fetch})[0]; }
  Tensor run(const Output& fetch) { return run({}, std::vector<Output>{fetch})[0]; }
  // Runs nodes for their effects, such as an initializer.
  void run_targets(const std::vector<Output>& targets) { run({}, {}, targets); }

  Callable callable(const std::vector<Output>& feeds, const std::vector<Output>& fetches,
                    const std::vector<Output>& targets = {});

  // Asks a running step to stop; its run throws Code::cancelled.
  void cancel(StepId step);

  // Takes up nodes added to `graph` since. Throws invalid_argument if it is not the session's graph with more at its
  // end.
  void extend(const Graph& graph);

  // Ends the session everywhere: steps in flight are cancelled, variables are freed, and a call that another thread has
  // compiled throws. Callable twice.
  void close();

  // What becomes of a call, as text: the passes over its graph, with their times and the nodes before and after each;
  // the device of each node; and the plan of each device: its segments, what they wait for, and its memory.
  std::string explain(const std::vector<Output>& feeds, const std::vector<Output>& fetches,
                      const std::vector<Output>& targets = {});

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe
