// How kernels tell of what is wrong with their data, and find out that others did.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "devices/cuda/cuda_fault.hpp"

namespace troupe::device {

// Of several faults of one kernel the first element counts, as on the CPU; of several kernels the first.
__device__ inline void report(const CudaFaultSite& site, std::int64_t value, std::int64_t element, std::int64_t bound) {
  volatile CudaFault* const fault = site.fault;
  for (bool told = false; !told;) {
    const unsigned found = fault->site;
    __threadfence();
    if (found != 0 && (found != site.site || fault->element <= element)) return;
    if (atomicCAS(&site.fault->lock, 0u, 1u) != 0) continue;
    __threadfence();
    if (fault->site == 0 || (fault->site == site.site && element < fault->element)) {
      fault->element = element;
      fault->value = value;
      fault->bound = bound;
      __threadfence();
      fault->site = site.site;
    }
    __threadfence();
    atomicExch(&site.fault->lock, 0u);
    told = true;
  }
}

// Has a kernel before this one found something?
__device__ inline bool failed(const CudaFault* fault) { return static_cast<const volatile CudaFault*>(fault)->site != 0; }

}  // namespace troupe::device
