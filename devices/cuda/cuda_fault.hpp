// A fault that a kernel finds in its data, as left in GPU memory: plain data for host and device.
#pragma once

#include <cstdint>

namespace troupe {

// The first fault that the host has not seen yet.
struct CudaFault {
  unsigned lock = 0;
  unsigned site = 0;         // the kernel that found it; 0: no fault
  std::int64_t value = 0;    // the bad value
  std::int64_t element = 0;  // its index
  std::int64_t bound = 0;    // the exclusive upper bound
};

// Argument of a kernel that checks its data: where to report a fault, and under which site number.
struct CudaFaultSite {
  CudaFault* fault = nullptr;
  unsigned site = 0;
};

}  // namespace troupe
