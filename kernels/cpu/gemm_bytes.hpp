// Products of 8-bit integers with exact 32-bit sums, and their rounding to 8 bits: for quantised matrix products and
// convolutions.
//
// Differences of bytes and zero points are at most 255 in magnitude, so float sums of kExactTerms products are exact in
// any order: blocks of terms are float products, added up as integers modulo 2^32.
#pragma once

#include <troupe/kernels/cpu/gemm.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

inline constexpr std::int64_t kExactTerms = 258;  // 258 * 255^2 < 2^24

// to[i] = from[i] - zero, for i8 or u8 elements `begin` to `begin + count` of `from`.
void subtract_zero_point(const Tensor& from, std::int64_t begin, std::int64_t count, std::int32_t zero, float* to);

// c[i * c_stride + j] = sum over p < k of a(i, p) * b(p, j), for integers in [-255, 255]; on the calling thread.
void gemm_bytes(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<float> a, MatrixView<float> b,
                std::int32_t* c, std::int64_t c_stride);

// out[i] = round(sums[i] * scale) + zero, to nearest even, saturated to i8 (`is_signed`) or u8.
void requantize(const std::int32_t* sums, std::int64_t count, float scale, std::int32_t zero, bool is_signed,
                void* out);
// The same with a scale for each element.
void requantize(const std::int32_t* sums, std::int64_t count, const float* scales, std::int32_t zero, bool is_signed,
                void* out);

// The zero points of `t`, i8 or u8, as integers.
std::int32_t zero_point(const Tensor& t, std::int64_t at = 0);

}  // namespace troupe
