// Additions of an all-reduce between GPUs (devices/cuda/parts_sum.hpp): interface between host and device code.
#pragma once

#include <cuda_runtime_api.h>

#include <troupe/devices/cuda/parts_sum.hpp>

namespace troupe {

// Returns cudaErrorInvalidValue for a dtype that cannot be reduced.
cudaError_t launch_parts_sum(const PartsSum& sum, cudaStream_t stream);
// Loads the kernels in advance: a first launch may wait for everything running on the GPU, including a rank that waits
// for this one.
cudaError_t load_parts_sum();

}  // namespace troupe
