// The epilogue of fused ops, applied to each part of a product while it is in the cache: adds the bias and applies the
// activation. Bit-identical to the ops BiasAdd and Relu, Sigmoid or Tanh in sequence.
#pragma once

#include <cstdint>

#include <troupe/kernels/common/activation.hpp>

namespace troupe {

// out[i * stride + j] = activation(x[i * stride + j] + bias[j]) for i < rows, j < width. `out` may be `x`. T: float,
// double, Half or BFloat16; the last two are rounded after each step.
template <class T>
void add_bias(FusedActivation activation, const T* x, const T* bias, std::int64_t rows, std::int64_t width,
              std::int64_t stride, T* out);

}  // namespace troupe
