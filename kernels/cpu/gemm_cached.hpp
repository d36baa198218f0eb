// Float products of matrices that fit in the cache: nothing is packed or allocated, unlike oneDNN, which does both per
// call. Each element is summed in the order of k with fused multiply-adds, so its bits depend neither on tiles nor on
// parts.
#pragma once

#include <troupe/kernels/cpu/gemm.hpp>

namespace troupe {

// Where the code below is faster than oneDNN on this machine: with AVX-512 for all products that stay in the cache,
// with AVX2 and FMA for narrow ones.
enum class GemmCached : std::uint8_t { nowhere, narrow, everywhere };
GemmCached gemm_cached_pays();

// c[i * c_stride + j] = sum over p < k of a(i, p) * b(p, j); k > 0. A transposed b is copied first.
void gemm_cached(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<float> a, MatrixView<float> b, float* c,
                 std::int64_t c_stride);

}  // namespace troupe
