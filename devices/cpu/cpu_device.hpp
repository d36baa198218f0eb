// The CPU as a device: one compute thread, helped inside kernels by threads - 1 others, and caching memory.
#pragma once

#include <memory>

#include <troupe/devices/device.hpp>

namespace troupe {

struct CpuDeviceOptions {
  DeviceName name;  // complete
  int threads = 1;
  std::uint64_t memory_limit = 0;  // maximum bytes of buffers in use and cached; 0: none
};

std::unique_ptr<Device> make_cpu_device(const CpuDeviceOptions& options);

}  // namespace troupe
