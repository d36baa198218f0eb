// Biases and activations after products and convolutions: interface between host and device code.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include <troupe/kernels/common/activation.hpp>
#include <troupe/messages/dtype.hpp>

namespace troupe {

// data[i * width + j] = activation(data[i * width + j] + bias[j]) for i < rows, j < width, in place; `bias` may be
// null. Floating types; f16 and bf16 are rounded after the sum and after the activation, as by separate BiasAdd and
// activation ops.
cudaError_t launch_bias_activation(DType dtype, FusedActivation activation, void* data, const void* bias,
                                   std::int64_t rows, std::int64_t width, cudaStream_t stream);

// to[i] = from[i] rounded to nearest even; `dtype` is f16 or bf16.
cudaError_t launch_narrow(DType dtype, const float* from, void* to, std::int64_t count, cudaStream_t stream);

}  // namespace troupe
