// Which library multiplies matrices of a given shape: fixed, never chosen by timing at run time.
#pragma once

#include <cstdint>

#include <troupe/kernels/cpu/gemm_cached.hpp>

namespace troupe {

// own_loop: gemm_cached.hpp.
enum class GemmLibrary { own_loop, onednn_primitive, onednn_sgemm };

// For float. Measured with troupe-tune (tools/bench/tune_kernels.cpp), GFLOP/s on one core of an EPYC with
// AVX-512 (peak 118):
//
//   m x k x n           own loop  sgemm  primitive  Eigen
//   64 x 64 x 64             113     98     104        83
//   32 x 784 x 128           116    115     114        80
//   784 x 32 x 128, a^T      111    107     105        79
//   32 x 128 x 10             70     43      52        54
//   128 x 32 x 10, a^T        66     42      41        43
//   256 x 256 x 256          116    113     116        90
//   32 x 1600 x 128          115    115     115        78
//   1 x 784 x 128             55     47      48        57
//   1024 x 1024 x 1024              112     111        87
//   2048 x 2048 x 2048              113     107        84
//   32 x 128 x 1600, b^T             65      98        77
//   256 x 256 x 256, b^T            107     114        89
//
// The loop needs a b that stays in the cache, and copies a transposed b, so only a small one. oneDNN calls malloc for
// each execution; the loop also lets a training step of small layers run without malloc.
inline GemmLibrary gemm_library(std::int64_t m, std::int64_t n, std::int64_t k, bool transpose_a, bool transpose_b) {
  const bool cached = k <= 4096 && k * n < std::int64_t{1} << 18 && (n <= 256 || k <= 128);
  if (has_gemm_cached() && cached && (!transpose_b || k * n <= std::int64_t{1} << 14)) return GemmLibrary::own_loop;
  if (m == 1 || n == 1) return GemmLibrary::onednn_sgemm;
  if (transpose_b) return k < 16 && !transpose_a ? GemmLibrary::onednn_sgemm : GemmLibrary::onednn_primitive;
  if (n <= 32 || m * n * k <= std::int64_t{1} << 18) return GemmLibrary::onednn_primitive;
  return GemmLibrary::onednn_sgemm;
}

// How a product is split into parts for threads: `rows` x `columns` parts of the output. Each part of rows packs b
// again, and each part of columns packs a again: 4 parts of rows cost at most 3 % on one thread, 8 up to 6 %; a few
// wide columns cost nothing.
struct GemmParts {
  std::int64_t row_step = 0;
  std::int64_t column_step = 0;
};
GemmParts gemm_parts(std::int64_t m, std::int64_t n, std::int64_t k);

// The number of products of a batch that make up a part: 1 if each is big enough itself.
std::int64_t small_products(std::int64_t m, std::int64_t n, std::int64_t k);

}  // namespace troupe
