// Eager mode: ops run when they are called, one line at a time, on the kernels, devices and gradients of graphs.
//
//   Eager eager;
//   Output x = constant(eager, Tensor::of<float>({2, 2}, {1, 2, 3, 4}));
//   Output y = matmul(x, x) + 1.0;
//   fmt::print("{}\n", y.value().to_string());
//
// The functions of the builder API compute at once when their inputs are of an Eager; the same function on inputs of a
// graph builds nodes. Results have the same bits. Gradients: graph/gradients/tape.hpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <troupe/graph/graph.hpp>
#include <troupe/messages/ids.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

class Callable;
class Session;
class Task;
struct RunOptions;

struct EagerOptions {
  std::uint64_t seed = 0;  // of random ops, which draw other numbers each time
  // Of ops that are called outside of Graph::on_device(); "": the task's first CPU. A GPU's ops without a kernel for it
  // run on that CPU.
  std::string device{};
  // Runs `wait` where the caller must wait for a device, for callers that hold a lock that others need meanwhile. It
  // returns whether it is over, after this long at most: is called until it is, unless the caller throws to wait no
  // more.
  std::function<void(const std::function<bool(std::chrono::milliseconds)>& wait)> around_waits{};
  // Runs a step of a traced function that may take long, one with a loop or a queue, or whose last took more than a
  // millisecond, for callers that may have to end it (Session::cancel). Null: it runs to its end.
  std::function<std::vector<Tensor>(Session&, const Callable&, std::vector<Tensor> feeds, const RunOptions&)>
      run_long_step{};
};

// Thread-safe: a device runs one op at a time, those of one thread in the order of its program. On a CPU with nothing
// else to do an op has run when its call returns. On a busy CPU and on GPUs it runs later: its value waits for it, and
// tells its error.
class Eager {
 public:
  // On a task of its own, with one CPU device.
  explicit Eager(EagerOptions options = {});
  // `task` must outlive it. Throws not_found for a device that the task does not have.
  explicit Eager(Task& task, EagerOptions options = {});
  // Values and variables must not be used in ops any more; tensors taken from them stay valid.
  ~Eager();
  Eager(const Eager&) = delete;
  Eager& operator=(const Eager&) = delete;

  // For functions that take a graph, such as constant() and variable().
  Graph& graph();
  operator Graph&() { return graph(); }
  Task& task();
  const EagerOptions& options() const;

  // Waits for all ops that have been called. Throws the first error that no value has told.
  void wait();
  // Random ops begin again, as after the construction with this seed.
  void set_seed(std::uint64_t seed);
  // The key of the next random numbers, which no op will have.
  RandomKey next_random_key();
  // The device of ops that ask for none, by its full name.
  const std::string& default_device() const;
  // Ops run so far.
  std::uint64_t ops_run() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe
