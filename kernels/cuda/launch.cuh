// Launching kernels, and launch parameters.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace troupe::device {

// Maximum blocks per grid: kernels loop over the remainder.
inline constexpr std::int64_t kMaxBlocks = std::int64_t{1} << 20;
// Default threads per block.
inline constexpr int kBlockThreads = 256;

inline unsigned blocks_for(std::int64_t items, std::int64_t per_block) {
  return static_cast<unsigned>(std::clamp<std::int64_t>((items + per_block - 1) / per_block, 1, kMaxBlocks));
}

// Launches `kernel` with `shared_bytes` of dynamic shared memory per block. A returned error is cleared, so that later
// calls do not see it.
template <class... Parameters>
cudaError_t launch_sharing(std::size_t shared_bytes, void (*kernel)(Parameters...), dim3 grid, dim3 block,
                           cudaStream_t stream, const std::type_identity_t<Parameters>&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  const cudaError_t status = cudaLaunchKernelEx(&config, kernel, arguments...);
  if (status != cudaSuccess) static_cast<void>(cudaGetLastError());
  return status;
}
template <class... Parameters>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, cudaStream_t stream,
                   const std::type_identity_t<Parameters>&... arguments) {
  return launch_sharing(0, kernel, grid, block, stream, arguments...);
}

}  // namespace troupe::device
