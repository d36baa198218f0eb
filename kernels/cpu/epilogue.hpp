// The epilogue of fused ops, applied to each part of a product while it is in the cache: adds the bias and applies the
// activation. Bit-identical to the ops BiasAdd and Relu, Sigmoid or Tanh in sequence.
#pragma once

#include <array>
#include <cstdint>

#include <troupe/kernels/common/activation.hpp>

namespace troupe {

// out[i * stride + j] = activation(x[i * stride + j] + bias[j]) for i < rows, j < width. `out` may be `x`. T: float,
// double, Half or BFloat16; the last two are rounded after each step.
template <class T>
void add_bias(FusedActivation activation, const T* x, const T* bias, std::int64_t rows, std::int64_t width,
              std::int64_t stride, T* out);

// The same for channels first: out[(i * channels + c) * size + j] = activation(x[...] + bias[c]) for i < images, j <
// size.
template <class T>
void add_bias_planes(FusedActivation activation, const T* x, const T* bias, std::int64_t images, std::int64_t channels,
                     std::int64_t size, T* out) {
  constexpr std::int64_t kBlock = 256;
  std::array<T, kBlock> row;
  for (std::int64_t plane = 0; plane < images * channels; ++plane, x += size, out += size) {
    row.fill(bias[plane % channels]);
    const std::int64_t rows = size / kBlock, done = rows * kBlock;
    add_bias(activation, x, row.data(), rows, kBlock, kBlock, out);
    if (done < size) add_bias(activation, x + done, row.data(), 1, size - done, size - done, out + done);
  }
}

}  // namespace troupe
