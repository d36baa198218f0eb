// Steps of many nodes on a GPU that all read the same variables there: what a kernel costs inside the runtime, and what
// copies cost kernels.
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
  std::int64_t below = 0;  // of integers: from 0 to this
};

class GpuStep {
 public:
  // `make` adds the work of one node, or of several, that reads `inputs`, and returns what is to be run. All of it is
  // on GPU:0; throws what the session throws, unimplemented if the GPU has no kernel for it.
  using Make = std::function<std::vector<Output>(const std::vector<Output>& inputs)>;
  struct Options {
    bool tf32 = false;
    bool optimize = false;  // passes on: fusion
    bool fetch = false;     // bring the results to the host
    Tensor fed;             // taken to the GPU in each step
    int in_flight = 1;      // steps at a time
  };
  GpuStep(const std::vector<GpuInput>& inputs, int times, const Make& make, Options options);

  // Runs steps for at least `seconds`, each to its end on the GPU; returns seconds for each time that `make` was
  // called.
  double seconds_per_node(double seconds) const;
  // Runs some steps, after which the GPU must have them recorded. Throws internal if it has not, and says why.
  void check_recorded();
  // The results, if they are fetched: in memory that copies to the GPU go straight from.
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
