// A GPU that runs kernels/cuda on the host (cuda_runtime.h): for tests of the kernels, not of devices/cuda. What it is
// given is done when the call returns; on one thread. Memory is of exactly the bytes that are asked for
// (emulated_memory.hpp).
#pragma once

#include <memory>

#include <troupe/devices/cuda/cuda_device.hpp>

namespace troupe::testing {

std::unique_ptr<CudaDevice> make_emulated_gpu();

}  // namespace troupe::testing
