// Biases on a GPU: interface between host and device code.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include <troupe/messages/dtype.hpp>

namespace troupe {

// out[i, j] = x[i, j] + bias[j]; out may be x. Floating types; at least one element.
cudaError_t launch_bias_add(DType dtype, const void* x, const void* bias, void* out, std::int64_t rows,
                            std::int64_t width, cudaStream_t stream);

// out[i, c, j] = x[i, c, j] + bias[c], for `planes` = images * channels.
cudaError_t launch_bias_add_planes(DType dtype, const void* x, const void* bias, void* out, std::int64_t planes,
                                   std::int64_t channels, std::int64_t size, cudaStream_t stream);

}  // namespace troupe
