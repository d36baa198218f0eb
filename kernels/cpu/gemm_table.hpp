// Which library multiplies matrices of a shape: fixed, never chosen by timing at run time.
#pragma once

#include <cstdint>

namespace troupe {

enum class GemmLibrary { onednn_primitive, onednn_sgemm };

// For float. Measured with troupe-tune (tools/bench/tune_kernels.cpp), GFLOP/s on one core of an EPYC with AVX-512
// (peak 118):
//
//   m x k x n           sgemm  primitive  Eigen
//   64 x 64 x 64           98     104        83
//   32 x 784 x 128        115     114        80
//   128 x 128 x 10         48      65        58
//   32 x 128 x 1600, b^T   65      98        77
//   64 x 64 x 64, b^T      75      97        81
//   32 x 10 x 128, b^T     69      55        51
//   784 x 32 x 128, a^T   107     105        79
//   1 x 784 x 128          55      48        57
//   1024 x 1024 x 1024    112     111        87
//   2048 x 2048 x 2048    113     107        84
//
// sgemm allocates its working memory for each call (one malloc), which the primitive does not need.
constexpr GemmLibrary gemm_library(std::int64_t m, std::int64_t n, std::int64_t k, bool transpose_a, bool transpose_b) {
  if (m == 1 || n == 1) return GemmLibrary::onednn_sgemm;
  if (transpose_b) return k < 16 && !transpose_a ? GemmLibrary::onednn_sgemm : GemmLibrary::onednn_primitive;
  if (n <= 32 || m * n * k <= std::int64_t{1} << 18) return GemmLibrary::onednn_primitive;
  return GemmLibrary::onednn_sgemm;
}

// How a product is cut into parts for threads: `rows` x `columns` parts of the output. Each part of rows packs b anew and
// each part of columns a: 4 parts of rows cost at most 3 % on one thread, 8 up to 6 %; few but wide columns cost nothing.
struct GemmParts {
  std::int64_t row_step = 0;
  std::int64_t column_step = 0;
};
GemmParts gemm_parts(std::int64_t m, std::int64_t n, std::int64_t k);

}  // namespace troupe
