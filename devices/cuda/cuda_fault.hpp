// What a kernel finds wrong with the data it is given, as it leaves it in memory of the GPU: plain data for both sides.
#pragma once

#include <cstdint>

namespace troupe {

// The first fault that the host has not seen yet.
struct CudaFault {
  unsigned lock = 0;
  unsigned site = 0;         // who found it; 0: nobody found anything
  std::int64_t value = 0;    // what is wrong
  std::int64_t element = 0;  // where it stands
  std::int64_t bound = 0;    // that it must be below
};

// Argument of a kernel that looks at its data: where to tell of what is wrong, and as whom.
struct CudaFaultSite {
  CudaFault* fault = nullptr;
  unsigned site = 0;
};

}  // namespace troupe
