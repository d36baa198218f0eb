// Random values on a GPU, between host and device code. The values of kernels/cpu/random.hpp: bit by bit if uniform,
// else as near as the GPU's functions are to the C library's. f32 and f64; `count` at least 1.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include <troupe/messages/dtype.hpp>
#include <troupe/messages/ids.hpp>
#include <troupe/messages/philox.hpp>

namespace troupe {

// Where a kernel takes its values from. What is recorded runs in many steps: then the key is read when the kernel runs.
struct RandomSource {
  PhiloxStream stream;
  const RandomKey* key = nullptr;  // in memory of the GPU; null: `stream` counts
  std::uint64_t node = 0;          // random_node()
  std::int64_t slot = -1;          // in place of the key's, if not below 0
};

// In [low, high), which have been rounded to the dtype.
cudaError_t launch_random_uniform(DType dtype, const RandomSource& random, std::int64_t count, double low, double high,
                                  void* out, cudaStream_t stream);
// `truncated`: no further than two deviations from the mean.
cudaError_t launch_random_normal(DType dtype, const RandomSource& random, bool truncated, std::int64_t count,
                                 double mean, double deviation, void* out, cudaStream_t stream);
// mask: 0 with probability `rate`, else 1 / (1 - rate); y = x mask. y may be x.
cudaError_t launch_dropout(DType dtype, const RandomSource& random, std::int64_t count, double rate, const void* x,
                           void* y, void* mask, cudaStream_t stream);

}  // namespace troupe
