// Updates of variables on a GPU: interface between host and device code.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include <troupe/devices/cuda/cuda_fault.hpp>
#include <troupe/messages/dtype.hpp>

namespace troupe {

// at[i] += change[i], or -=; does nothing after a fault. Floating types, and integers of 8 to 64 bits, which wrap.
// `count` is at least 1.
cudaError_t launch_assign_sum(DType dtype, bool subtract, void* at, const void* change, std::int64_t count,
                              const CudaFault* fault, cudaStream_t stream);

}  // namespace troupe
