// Training steps of ResNet-50 on a GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/session/session.hpp>

namespace troupe::bench {

// Layers in bf16, weights in f32, SGD with momentum; each step is fed one batch of random images of side x side pixels,
// f32 in pinned memory. Two steps are in flight.
class GpuResNet {
 public:
  GpuResNet(int batch, std::int64_t side);
  // Measured over steps that take at least `seconds` together.
  double steps_per_second(double seconds) const;

 private:
  Task task_;
  std::unique_ptr<Session> session_;
  std::vector<Tensor> feeds_;
  Callable step_;
};

}  // namespace troupe::bench
