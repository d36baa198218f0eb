#include "troupe/kernels/cpu/gemm_cached.hpp"

#include <algorithm>
#include <array>
#include <utility>

#if defined(__AVX512F__) || (defined(__AVX2__) && defined(__FMA__))
#define TROUPE_HAS_GEMM_CACHED
#include <immintrin.h>
#endif

#include <troupe/kernels/cpu/scratch.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {

#ifdef TROUPE_HAS_GEMM_CACHED
namespace {

#ifdef __AVX512F__
struct Lanes {
  using Vector = __m512;
  using Mask = __mmask16;
  static constexpr std::int64_t kWidth = 16;
  // A tile's sums stay in registers: 8 x 3 of the 32, leaving 3 for b.
  static constexpr std::int64_t kRows = 8, kVectors = 3;

  static Mask first(std::int64_t columns) { return static_cast<Mask>((1u << columns) - 1); }
  static Vector zero() { return _mm512_setzero_ps(); }
  static Vector all(float value) { return _mm512_set1_ps(value); }
  static Vector load(const float* from) { return _mm512_loadu_ps(from); }
  static Vector load(const float* from, Mask mask) { return _mm512_maskz_loadu_ps(mask, from); }
  static Vector fma(Vector a, Vector b, Vector sum) { return _mm512_fmadd_ps(a, b, sum); }
  static void store(float* to, Vector value) { _mm512_storeu_ps(to, value); }
  static void store(float* to, Vector value, Mask mask) { _mm512_mask_storeu_ps(to, mask, value); }
};
#else
struct Lanes {
  using Vector = __m256;
  using Mask = __m256i;
  static constexpr std::int64_t kWidth = 8;
  // 6 x 2 of the 16 registers, leaving 2 for b and one for a.
  static constexpr std::int64_t kRows = 6, kVectors = 2;

  static Mask first(std::int64_t columns) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(columns)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static Vector zero() { return _mm256_setzero_ps(); }
  static Vector all(float value) { return _mm256_set1_ps(value); }
  static Vector load(const float* from) { return _mm256_loadu_ps(from); }
  static Vector load(const float* from, Mask mask) { return _mm256_maskload_ps(from, mask); }
  static Vector fma(Vector a, Vector b, Vector sum) { return _mm256_fmadd_ps(a, b, sum); }
  static void store(float* to, Vector value) { _mm256_storeu_ps(to, value); }
  static void store(float* to, Vector value, Mask mask) { _mm256_maskstore_ps(to, mask, value); }
};
#endif
constexpr std::int64_t kRows = Lanes::kRows, kVectors = Lanes::kVectors, kWidth = Lanes::kWidth;

struct Tile {
  const float* a;  // element (i, p) at a[i * row_step + p * k_step]
  std::int64_t row_step;
  std::int64_t k_step;
  const float* b;
  std::int64_t b_stride;
  float* c;
  std::int64_t c_stride;
  std::int64_t k;
  Lanes::Mask last;  // the valid columns of the last vector
};

template <int Rows, int Vectors>
void multiply(const Tile& t) {
  Lanes::Vector sum[Rows][Vectors];
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 3
    for (int v = 0; v < Vectors; ++v) sum[i][v] = Lanes::zero();
  const float* a = t.a;
  const float* b = t.b;
  for (std::int64_t p = 0; p < t.k; ++p, a += t.k_step, b += t.b_stride) {
    Lanes::Vector row[Vectors];
#pragma GCC unroll 3
    for (int v = 0; v < Vectors - 1; ++v) row[v] = Lanes::load(b + v * kWidth);
    row[Vectors - 1] = Lanes::load(b + (Vectors - 1) * kWidth, t.last);
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
      const Lanes::Vector factor = Lanes::all(a[i * t.row_step]);
#pragma GCC unroll 3
      for (int v = 0; v < Vectors; ++v) sum[i][v] = Lanes::fma(factor, row[v], sum[i][v]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 3
    for (int v = 0; v < Vectors - 1; ++v) Lanes::store(t.c + i * t.c_stride + v * kWidth, sum[i][v]);
    Lanes::store(t.c + i * t.c_stride + (Vectors - 1) * kWidth, sum[i][Vectors - 1], t.last);
  }
}

using Multiply = void (*)(const Tile&);
template <std::size_t... At>
constexpr std::array<Multiply, sizeof...(At)> all_sizes(std::index_sequence<At...>) {
  return {multiply<static_cast<int>(At / kVectors) + 1, static_cast<int>(At % kVectors) + 1>...};
}
// [rows - 1][vectors - 1]
constexpr auto kMultiply = all_sizes(std::make_index_sequence<static_cast<std::size_t>(kRows* kVectors)>{});

}  // namespace

#ifdef __AVX512F__
GemmCached gemm_cached_pays() { return GemmCached::everywhere; }
#else
GemmCached gemm_cached_pays() { return GemmCached::narrow; }
#endif

void gemm_cached(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<float> a, MatrixView<float> b, float* c,
                 std::int64_t c_stride) {
  const ScratchArray<float> copy(b.transposed ? k * n : 0);
  if (b.transposed) {
    for (std::int64_t p = 0; p < k; ++p)
      for (std::int64_t j = 0; j < n; ++j) copy[p * n + j] = b.data[j * b.stride + p];
    b = {copy.data(), n, false};
  }
  Tile tile{.a = nullptr,
            .row_step = a.transposed ? 1 : a.stride,
            .k_step = a.transposed ? a.stride : 1,
            .b = nullptr,
            .b_stride = b.stride,
            .c = nullptr,
            .c_stride = c_stride,
            .k = k,
            .last = Lanes::first(0)};
  // The columns of b that a tile reads stay in a near cache while all rows of a pass.
  for (std::int64_t left = 0; left < n; left += kVectors * kWidth) {
    const std::int64_t width = std::min(n - left, kVectors * kWidth), vectors = (width + kWidth - 1) / kWidth;
    tile.last = Lanes::first(width - (vectors - 1) * kWidth);
    tile.b = b.data + left;
    for (std::int64_t top = 0; top < m; top += kRows) {
      tile.a = a.data + top * tile.row_step;
      tile.c = c + top * c_stride + left;
      kMultiply[static_cast<std::size_t>((std::min(kRows, m - top) - 1) * kVectors + vectors - 1)](tile);
    }
  }
}
#else
GemmCached gemm_cached_pays() { return GemmCached::nowhere; }

void gemm_cached(std::int64_t, std::int64_t, std::int64_t, MatrixView<float>, MatrixView<float>, float*, std::int64_t) {
  fail(Code::internal, "gemm_cached needs AVX-512, or AVX2 and FMA");
}
#endif

}  // namespace troupe
