// Pooling of images with channels last: interface between host and device code. All sizes are at least 1. Each element
// of a result has its own thread, which adds in the same order as the CPU and so gives the same bits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include <troupe/messages/dtype.hpp>

namespace troupe {

// Along an axis, window o covers the existing positions among o * stride - before + k * dilation for k < kernel.
struct PoolAxis {
  std::int64_t input, kernel, stride, dilation, output, before, after;
};
struct PoolSizes {
  std::int64_t images, channels;
  PoolAxis depth, rows, columns;
  int divisor = 0;  // of averages: Divisor in kernels/common/pool_geometry.hpp
};

// Floating types; of maxima also i8 and u8. `x` and `dx` are images, `y` and `dy` results.
cudaError_t launch_max_pool(DType dtype, const PoolSizes& sizes, const void* x, void* y, cudaStream_t stream);
// The same, and the element of x that each maximum is, the first of several: -1 for a window without elements.
cudaError_t launch_max_pool_indices(DType dtype, const PoolSizes& sizes, const void* x, void* y, std::int64_t* indices,
                                    cudaStream_t stream);
cudaError_t launch_max_pool_grad(DType dtype, const PoolSizes& sizes, const void* x, const void* y, const void* dy,
                                 void* dx, cudaStream_t stream);
cudaError_t launch_avg_pool(DType dtype, const PoolSizes& sizes, const void* x, void* y, cudaStream_t stream);
cudaError_t launch_avg_pool_grad(DType dtype, const PoolSizes& sizes, const void* dy, void* dx, cudaStream_t stream);

}  // namespace troupe
