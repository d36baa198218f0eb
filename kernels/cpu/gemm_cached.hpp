// Float products of matrices that fit in the cache: nothing is packed or allocated, unlike oneDNN, which does both per
// call. Each element is summed in the order of k with fused multiply-adds, so its bits depend neither on tiles nor on
// parts.
#pragma once

#include <troupe/kernels/cpu/gemm.hpp>

namespace troupe {

// Returns whether the code below is built for this machine (AVX-512).
bool has_gemm_cached();

// c[i * c_stride + j] = sum over p < k of a(i, p) * b(p, j); k > 0. With `accumulate` the sums begin with c. A
// transposed b is copied first.
void gemm_cached(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<float> a, MatrixView<float> b, float* c,
                 std::int64_t c_stride, bool accumulate = false);

}  // namespace troupe
