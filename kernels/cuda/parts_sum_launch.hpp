// The additions of an all-reduce between GPUs (devices/cuda/parts_sum.hpp), between host and device code.
#pragma once

#include <cuda_runtime_api.h>

#include <troupe/devices/cuda/parts_sum.hpp>

namespace troupe {

// cudaErrorInvalidValue for a dtype that cannot be reduced.
cudaError_t launch_parts_sum(const PartsSum& sum, cudaStream_t stream);
// Loads its kernels: the first launch of one may wait for all that runs on the GPU, which may be a rank that waits for
// this one.
cudaError_t load_parts_sum();

}  // namespace troupe
