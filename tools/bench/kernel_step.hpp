// Steps of many nodes of one op that read the same fed tensors: the cost of a kernel inside the runtime.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/session/session.hpp>

namespace troupe::bench {

class KernelStep {
 public:
  // `make` adds one node that reads `inputs`. On one thread, passes off. Throws unimplemented if there is no kernel.
  KernelStep(std::vector<Tensor> feeds, int nodes,
             const std::function<Output(const std::vector<Output>& inputs)>& make);

  // The result of one node.
  Tensor result() const { return one_(feeds_)[0]; }
  // Runs steps for at least `seconds`; returns seconds per node.
  double seconds_per_node(double seconds) const;

 private:
  Task task_;
  Graph graph_;
  std::vector<Tensor> feeds_;
  int nodes_;
  std::unique_ptr<Session> session_;
  Callable one_;
  Callable all_;
};

// Random f32 in [-1, 1), determined by shape and seed.
Tensor random_tensor(const Shape& shape, std::uint64_t seed);

// Throws internal if two results differ by more than `tolerance` x the largest element.
void check_close(const Tensor& result, const float* expected, double tolerance);

}  // namespace troupe::bench
