// Kernels of the GPU baselines, between host and device code.
#pragma once

#include <cuda_runtime_api.h>

namespace troupe {

// data[i] = -data[i] for i < 32.
cudaError_t launch_tiny(float* data, cudaStream_t stream);

}  // namespace troupe
