// How kernels are launched, and what launchers work out before.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace troupe::device {

// Blocks of a grid at most: kernels go on from there with what is left.
inline constexpr std::int64_t kMaxBlocks = std::int64_t{1} << 20;
// Threads of a block, where nothing asks for another number.
inline constexpr int kBlockThreads = 256;

inline unsigned blocks_for(std::int64_t items, std::int64_t per_block) {
  return static_cast<unsigned>(std::clamp<std::int64_t>((items + per_block - 1) / per_block, 1, kMaxBlocks));
}

// Launches `kernel`, whose blocks have `shared_bytes` of memory beside what it declares. An error that is returned does
// not stay behind for whoever asks next.
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
