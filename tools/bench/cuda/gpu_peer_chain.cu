// Peers of the dispatch cases on a GPU: kernels that do next to nothing, launched one after the other.
#include "tools/bench/cuda/gpu_peer_launch.hpp"
#include <troupe/kernels/cuda/launch.cuh>

namespace troupe {
namespace {

__global__ void tiny(float* data) { data[threadIdx.x] = -data[threadIdx.x]; }

}  // namespace

cudaError_t launch_tiny(float* data, cudaStream_t stream) {
  return device::launch(tiny, dim3(1), dim3(32), stream, data);
}

}  // namespace troupe
