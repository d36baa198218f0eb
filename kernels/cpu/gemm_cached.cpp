#include "troupe/kernels/cpu/gemm_cached.hpp"

#include <algorithm>
#include <array>
#include <utility>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include <troupe/kernels/cpu/scratch.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {

#ifdef __AVX512F__
namespace {

// A tile's sums stay in registers: 8 x 3 of the 32, leaving 3 for b.
constexpr std::int64_t kRows = 8;
constexpr std::int64_t kVectors = 3;
constexpr std::int64_t kWidth = 16;

struct Tile {
  const float* a;  // element (i, p) at a[i * row_step + p * k_step]
  std::int64_t row_step;
  std::int64_t k_step;
  const float* b;
  std::int64_t b_stride;
  float* c;
  std::int64_t c_stride;
  std::int64_t k;
  __mmask16 last;  // the valid columns of the last vector
  bool accumulate;
};

template <int Rows, int Vectors>
void multiply(const Tile& t) {
  __m512 sum[Rows][Vectors];
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 3
    for (int v = 0; v < Vectors; ++v) sum[i][v] = _mm512_setzero_ps();
  if (t.accumulate) {
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 3
      for (int v = 0; v < Vectors - 1; ++v) sum[i][v] = _mm512_loadu_ps(t.c + i * t.c_stride + v * kWidth);
      sum[i][Vectors - 1] = _mm512_maskz_loadu_ps(t.last, t.c + i * t.c_stride + (Vectors - 1) * kWidth);
    }
  }
  const float* a = t.a;
  const float* b = t.b;
  for (std::int64_t p = 0; p < t.k; ++p, a += t.k_step, b += t.b_stride) {
    __m512 row[Vectors];
#pragma GCC unroll 3
    for (int v = 0; v < Vectors - 1; ++v) row[v] = _mm512_loadu_ps(b + v * kWidth);
    row[Vectors - 1] = _mm512_maskz_loadu_ps(t.last, b + (Vectors - 1) * kWidth);
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
      const __m512 factor = _mm512_set1_ps(a[i * t.row_step]);
#pragma GCC unroll 3
      for (int v = 0; v < Vectors; ++v) sum[i][v] = _mm512_fmadd_ps(factor, row[v], sum[i][v]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 3
    for (int v = 0; v < Vectors - 1; ++v) _mm512_storeu_ps(t.c + i * t.c_stride + v * kWidth, sum[i][v]);
    _mm512_mask_storeu_ps(t.c + i * t.c_stride + (Vectors - 1) * kWidth, t.last, sum[i][Vectors - 1]);
  }
}

using Multiply = void (*)(const Tile&);
template <std::size_t... At>
constexpr std::array<Multiply, sizeof...(At)> all_sizes(std::index_sequence<At...>) {
  return {multiply<static_cast<int>(At / kVectors) + 1, static_cast<int>(At % kVectors) + 1>...};
}
// [rows - 1][vectors - 1]
constexpr auto kMultiply = all_sizes(std::make_index_sequence<static_cast<std::size_t>(kRows* kVectors)>{});

// 16 x 16 elements, in registers: pairs, then fours of each 128 bits, then these.
void transpose_block(const float* from, std::int64_t stride, float* to, std::int64_t to_stride) {
  __m512 rows[kWidth], pairs[kWidth], fours[kWidth];
#pragma GCC unroll 16
  for (int i = 0; i < kWidth; ++i) rows[i] = _mm512_loadu_ps(from + i * stride);
#pragma GCC unroll 8
  for (int i = 0; i < kWidth; i += 2) {
    pairs[i] = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
  }
  const auto join = [](__m512 low, __m512 high, bool upper) {
    const __m512d a = _mm512_castps_pd(low), b = _mm512_castps_pd(high);
    return _mm512_castpd_ps(upper ? _mm512_unpackhi_pd(a, b) : _mm512_unpacklo_pd(a, b));
  };
#pragma GCC unroll 4
  for (int i = 0; i < kWidth; i += 4)
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) fours[i + q] = join(pairs[i + q / 2], pairs[i + q / 2 + 2], q % 2 == 1);
#pragma GCC unroll 4
  for (int q = 0; q < 4; ++q) {
    const __m512 even = _mm512_shuffle_f32x4(fours[q], fours[4 + q], 0x88),
                 even2 = _mm512_shuffle_f32x4(fours[8 + q], fours[12 + q], 0x88),
                 odd = _mm512_shuffle_f32x4(fours[q], fours[4 + q], 0xdd),
                 odd2 = _mm512_shuffle_f32x4(fours[8 + q], fours[12 + q], 0xdd);
    _mm512_storeu_ps(to + q * to_stride, _mm512_shuffle_f32x4(even, even2, 0x88));
    _mm512_storeu_ps(to + (4 + q) * to_stride, _mm512_shuffle_f32x4(odd, odd2, 0x88));
    _mm512_storeu_ps(to + (8 + q) * to_stride, _mm512_shuffle_f32x4(even, even2, 0xdd));
    _mm512_storeu_ps(to + (12 + q) * to_stride, _mm512_shuffle_f32x4(odd, odd2, 0xdd));
  }
}

// The k x n matrix whose transpose is stored.
void transpose_cached(MatrixView<float> b, std::int64_t k, std::int64_t n, float* to) {
  for (std::int64_t j = 0; j < n; j += kWidth)
    for (std::int64_t p = 0; p < k; p += kWidth) {
      const float* const from = b.data + j * b.stride + p;
      float* const block = to + p * n + j;
      const std::int64_t rows = std::min(kWidth, n - j), columns = std::min(kWidth, k - p);
      if (rows == kWidth && columns == kWidth)
        transpose_block(from, b.stride, block, n);
      else
        for (std::int64_t c = 0; c < columns; ++c)
          for (std::int64_t r = 0; r < rows; ++r) block[c * n + r] = from[r * b.stride + c];
    }
}

}  // namespace

bool has_gemm_cached() { return true; }

void gemm_cached(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<float> a, MatrixView<float> b, float* c,
                 std::int64_t c_stride, bool accumulate) {
  const ScratchArray<float> copy(b.transposed ? k * n : 0);
  if (b.transposed) {
    transpose_cached(b, k, n, copy.data());
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
            .last = 0,
            .accumulate = accumulate};
  // The columns of b that a tile reads stay in a near cache while all rows of a pass.
  for (std::int64_t left = 0; left < n; left += kVectors * kWidth) {
    const std::int64_t width = std::min(n - left, kVectors * kWidth), vectors = (width + kWidth - 1) / kWidth;
    tile.last = static_cast<__mmask16>((1u << (width - (vectors - 1) * kWidth)) - 1);
    tile.b = b.data + left;
    for (std::int64_t top = 0; top < m; top += kRows) {
      tile.a = a.data + top * tile.row_step;
      tile.c = c + top * c_stride + left;
      kMultiply[static_cast<std::size_t>((std::min(kRows, m - top) - 1) * kVectors + vectors - 1)](tile);
    }
  }
}
#else
bool has_gemm_cached() { return false; }

void gemm_cached(std::int64_t, std::int64_t, std::int64_t, MatrixView<float>, MatrixView<float>, float*, std::int64_t,
                 bool) {
  fail(Code::internal, "gemm_cached needs AVX-512");
}
#endif

}  // namespace troupe
