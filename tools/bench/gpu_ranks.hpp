// The GPUs of one task as ranks that all-reduce tensors.
#pragma once

#include <memory>
#include <vector>

#include <troupe/actors/cluster/task.hpp>
#include <troupe/devices/collective/communicator.hpp>

namespace troupe::bench {

class GpuRanks {
 public:
  // Each rank has `count` f32 numbers.
  GpuRanks(int gpus, std::int64_t count, bool deterministic);
  ~GpuRanks();
  // Runs `times` sums one after the other on all ranks; waits for the last.
  void reduce(int times);

 private:
  Task task_;
  std::vector<Device*> devices_;
  std::vector<Tensor> tensors_;
  std::vector<std::shared_ptr<DeviceCommunicator>> ends_;
};

}  // namespace troupe::bench
