// Indices that are no rows, found by kernels that have been launched long before. Nobody waits for them: a row of zeros is read, nothing is added,
// and the next op on rows that this device is given fails with what was found.
#pragma once

#include "devices/cuda/cuda_device.hpp"
#include "kernels/cuda/gather_launch.hpp"

namespace troupe {

// One of each device (CudaDevice::state). On the thread of compute() only.
class IndexFaults {
 public:
  explicit IndexFaults(CudaDevice& device);
  ~IndexFaults();
  IndexFaults(const IndexFaults&) = delete;
  IndexFaults& operator=(const IndexFaults&) = delete;

  // Throws invalid_argument if a kernel found one since the last call that did.
  void check();
  // For arguments of kernels.
  IndexFault* on_device() const { return on_device_; }

 private:
  IndexFault* fault_ = nullptr;
  IndexFault* on_device_ = nullptr;
};

}  // namespace troupe
