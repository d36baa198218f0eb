// Matrix products by a constant, which is kept in the layout that oneDNN wants, with what follows made where sums are.
#pragma once

#include <cstdint>

#include <troupe/devices/device.hpp>
#include <troupe/kernels/cpu/gemm.hpp>
#include <troupe/kernels/cpu/kept_layout.hpp>

namespace troupe {

enum class ProductEnding : std::uint8_t {
  none,
  relu,  // max(., 0), 0 for NaN
  gelu,  // x (1 + erf(x / sqrt(2))) / 2
};

// Whether that is faster than gemm(): a product of few rows reads its factors once anyway.
bool should_pack(std::int64_t m, std::int64_t n, std::int64_t k);

// out [m,n] = ending(a b + bias), with a [m,k], b [k,n] or its stored transpose, bias [n] or null; all f32, in rows
// without gaps, aligned to 64 bytes. Bits depend on sizes, ending and layout of b alone, not on the number of threads;
// they are others than those of gemm().
void packed_product(Parallelism& parallelism, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
                    MatrixView<float> b, const float* bias, ProductEnding ending, float* out, KeptLayout& kept);

}  // namespace troupe
