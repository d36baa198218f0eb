// Random values on a GPU: interface between host and device code. Values of kernels/cpu/random.hpp: bit-identical if
// uniform, otherwise to the accuracy of the GPU's math functions. f32, f64, f16, bf16; `count` is at least 1.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include <troupe/messages/dtype.hpp>
#include <troupe/messages/ids.hpp>
#include <troupe/messages/philox.hpp>

namespace troupe {

// Source of random values. A recording runs in many steps, so its kernels read the key when they run.
struct RandomSource {
  PhiloxStream stream;
  const RandomKey* key = nullptr;  // in GPU memory; if null, `stream` is used
  std::uint64_t node = 0;          // random_node()
  std::int64_t slot = -1;          // replaces the key's slot if not negative
};

// Values in [low, high), both already rounded to the dtype; `last` is the greatest value of the dtype below `high`.
cudaError_t launch_random_uniform(DType dtype, const RandomSource& random, std::int64_t count, double low, double high,
                                  double last, void* out, cudaStream_t stream);
// `truncated`: at most two deviations from the mean.
cudaError_t launch_random_normal(DType dtype, const RandomSource& random, bool truncated, std::int64_t count,
                                 double mean, double deviation, void* out, cudaStream_t stream);
// mask: 0 with probability `rate`, else 1 / (1 - rate); y = x mask. y may be x.
cudaError_t launch_dropout(DType dtype, const RandomSource& random, std::int64_t count, double rate, const void* x,
                           void* y, void* mask, cudaStream_t stream);

}  // namespace troupe
