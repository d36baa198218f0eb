// Steps of many nodes on a GPU that read the same variables: the cost of a kernel inside the runtime, and the cost of
// copies to kernels.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/variable.hpp>

namespace troupe::bench {

struct GpuInput {
  DType dtype = DType::f32;
  Shape shape;
  std::int64_t below = 0;  // integers: random in [0, below)
};

class GpuStep {
 public:
  // `make` adds the work of one or several nodes that read `inputs`, and returns the outputs to run. All of it runs on
  // GPU:0; throws what the session throws, unimplemented if the GPU has no kernel for it.
  using Make = std::function<std::vector<Output>(const std::vector<Output>& inputs)>;
  struct Options {
    bool tf32 = false;
    bool optimize = false;  // enables passes: fusion
    bool fetch = false;     // copies the results to the host
    Tensor fed;             // copied to the GPU in each step
    int in_flight = 1;      // concurrent steps
  };
  GpuStep(const std::vector<GpuInput>& inputs, int times, const Make& make, Options options);

  // Runs steps for at least `seconds`, each to its end on the GPU; returns seconds per call of `make`.
  double seconds_per_node(double seconds) const;
  // Runs some steps, which the GPU must then have recorded. Throws internal with the reason otherwise.
  void check_recorded();
  // The fetched results, if any, in pinned memory.
  std::vector<Tensor> results() const { return all_(feeds_); }

 private:
  Task task_;
  Graph graph_;
  int times_;
  int in_flight_;
  std::vector<Tensor> feeds_;
  std::unique_ptr<Session> session_;
  Callable all_;
};

}  // namespace troupe::bench
