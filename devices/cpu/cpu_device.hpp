// The CPU as a device: one compute thread, helped inside kernels by threads - 1 others, and caching memory.
#pragma once

#include <atomic>
#include <memory>

#include <troupe/devices/device.hpp>

namespace troupe {

struct CpuDeviceOptions {
  DeviceName name;  // complete
  int threads = 1;
  std::uint64_t memory_limit = 0;  // maximum bytes of buffers in use and cached; 0: none
  // While it is true, kernels use the calling thread alone: with its priority, not that of the device's. Null: never.
  std::shared_ptr<const std::atomic<bool>> alone{};
};

std::unique_ptr<Device> make_cpu_device(const CpuDeviceOptions& options);

}  // namespace troupe
