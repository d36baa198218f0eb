// GPUs of one task as ranks that reduce tensors together.
#pragma once

#include <memory>
#include <vector>

#include <troupe/actors/cluster/task.hpp>
#include <troupe/devices/collective/communicator.hpp>

namespace troupe::bench {

class GpuRanks {
 public:
  // Each has `count` numbers of f32.
  GpuRanks(int gpus, std::int64_t count, bool deterministic);
  ~GpuRanks();
  // As many sums one after the other, on all of them; waits for the last.
  void reduce(int times);

 private:
  Task task_;
  std::vector<Device*> devices_;
  std::vector<Tensor> tensors_;
  std::vector<std::shared_ptr<DeviceCommunicator>> ends_;
};

}  // namespace troupe::bench
