// A CPU device for some sessions alone (SessionOptions::device): their steps wait for nobody else's, and its memory is
// theirs. Placement and peers do not see it; introspection does.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include <troupe/actors/cluster/task.hpp>
#include <troupe/devices/device.hpp>

namespace troupe {

struct PrivateDeviceOptions {
  int threads = 0;                 // 0: one for each core
  std::uint64_t memory_limit = 0;  // bytes in use and cached; 0: none
};

class PrivateDevice {
 public:
  // `task` must outlive it. Throws failed_precondition for a task that has shut down.
  PrivateDevice(Task& task, const PrivateDeviceOptions& options);
  // Ends the device: steps that run end first, those that wait are dropped. Its tensors stay valid.
  ~PrivateDevice();
  PrivateDevice(const PrivateDevice&) = delete;
  PrivateDevice& operator=(const PrivateDevice&) = delete;

  // Whether kernels may use the device's other threads; at first they may. Without, what runs on a thread of low
  // priority takes no more than that from others.
  void use_helpers(bool use) { *alone_ = !use; }

  // Thread-safe. The first call lists all kernels, which takes half a millisecond.
  const DeviceInfo& info() const;
  Device& device() const { return *device_; }

 private:
  Task& task_;
  const std::shared_ptr<std::atomic<bool>> alone_ = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<Device> device_;
  mutable std::once_flag listed_;
  mutable DeviceInfo info_;
};

}  // namespace troupe
