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

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <troupe/graph/graph.hpp>

namespace troupe {

class Task;

struct EagerOptions {
  std::uint64_t seed = 0;  // of random ops, which draw other numbers each time
  std::string device{};    // of ops that are called outside of Graph::on_device(); "": the task's first CPU
  // Runs `wait` where an op must wait for its device, for callers that hold a lock that others need meanwhile.
  std::function<void(const std::function<void()>& wait)> around_waits{};
};

// Thread-safe: a device runs one op at a time, those of one thread in the order of its program.
class Eager {
 public:
  // On a task of its own, with one CPU device.
  explicit Eager(EagerOptions options = {});
  // `task` must outlive it. Throws not_found for a device that the task does not have, unimplemented for a GPU.
  explicit Eager(Task& task, EagerOptions options = {});
  // Values and variables must not be used in ops any more; tensors taken from them stay valid.
  ~Eager();
  Eager(const Eager&) = delete;
  Eager& operator=(const Eager&) = delete;

  // For functions that take a graph, such as constant() and variable().
  Graph& graph();
  operator Graph&() { return graph(); }
  Task& task();

  // Random ops begin again, as after the construction with this seed.
  void set_seed(std::uint64_t seed);
  // Ops run so far.
  std::uint64_t ops_run() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe
