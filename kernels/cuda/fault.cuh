// How kernels report invalid data and detect faults of earlier kernels.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include <troupe/devices/cuda/cuda_fault.hpp>

namespace troupe::device {

// Requires that no other lane of the warp takes the same lock.
__device__ inline void report_alone(const CudaFaultSite& site, std::int64_t value, std::int64_t element,
                                    std::int64_t bound) {
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

// Reports a fault. Within a kernel the lowest element wins, as on the CPU; across kernels the first one wins. Lanes of
// a warp that arrive together take turns: none waits for a lock held by another lane of its warp.
__device__ inline void report(const CudaFaultSite& site, std::int64_t value, std::int64_t element, std::int64_t bound) {
  const unsigned here = __activemask();
  for (unsigned left = here; left != 0; left &= left - 1) {
    if (static_cast<int>(threadIdx.x % 32) == __ffs(static_cast<int>(left)) - 1)
      report_alone(site, value, element, bound);
    __syncwarp(here);
  }
}

// True if an earlier kernel reported a fault.
__device__ inline bool failed(const CudaFault* fault) { return fault->site != 0; }

}  // namespace troupe::device
