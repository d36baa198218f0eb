#include "troupe/kernels/cpu/gemm_bytes.hpp"

#include <algorithm>
#include <cmath>

#include <troupe/kernels/cpu/scratch.hpp>

namespace troupe {
namespace {

template <class T>
void subtract_zero(const T* from, std::int64_t count, std::int32_t zero, float* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(std::int32_t{from[i]} - zero);
}

// Adding and subtracting 1.5 x 2^23 rounds to an integer, to nearest even; the clamps come first, so that it fits, and
// turn NaN into the lower bound.
constexpr float kRounder = 12582912.0f;

template <class T, class Scale>
void round_to_bytes(const std::int32_t* sums, std::int64_t count, Scale scale, std::int32_t zero, T* out) {
  const auto low = static_cast<float>(std::numeric_limits<T>::min() - zero),
             high = static_cast<float>(std::numeric_limits<T>::max() - zero);
  for (std::int64_t i = 0; i < count; ++i) {
    const float x = static_cast<float>(sums[i]) * scale(i);
    const float bounded = x > low ? (x < high ? x : high) : low;
    const float rounded = (bounded + kRounder) - kRounder;
    out[i] = static_cast<T>(static_cast<std::int32_t>(rounded) + zero);
  }
}

template <class Scale>
void round_to_any(const std::int32_t* sums, std::int64_t count, Scale scale, std::int32_t zero, bool is_signed,
                  void* out) {
  if (is_signed)
    round_to_bytes(sums, count, scale, zero, static_cast<std::int8_t*>(out));
  else
    round_to_bytes(sums, count, scale, zero, static_cast<std::uint8_t*>(out));
}

}  // namespace

void subtract_zero_point(const Tensor& from, std::int64_t begin, std::int64_t count, std::int32_t zero, float* to) {
  if (from.dtype() == DType::i8)
    subtract_zero(from.data<std::int8_t>() + begin, count, zero, to);
  else
    subtract_zero(from.data<std::uint8_t>() + begin, count, zero, to);
}

void gemm_bytes(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<float> a, MatrixView<float> b,
                std::int32_t* c, std::int64_t c_stride) {
  // Rows whose sums stay in the cache.
  constexpr std::int64_t kRows = 64;
  const ScratchArray<float> sums(std::min(kRows, m) * n);
  for (std::int64_t top = 0; top < m; top += kRows) {
    const std::int64_t height = std::min(kRows, m - top);
    std::int64_t first = 0;
    do {
      MatrixView<float> left = a, right = b;
      left.data += left.transposed ? first * left.stride + top : top * left.stride + first;
      right.data += right.transposed ? first : first * right.stride;
      gemm(height, n, std::min(kExactTerms, k - first), left, right, sums.data(), n);
      for (std::int64_t i = 0; i < height; ++i) {
        auto* const row = reinterpret_cast<std::uint32_t*>(c + (top + i) * c_stride);  // wraps
        const float* const from = sums.data() + i * n;
        if (first == 0)
          for (std::int64_t j = 0; j < n; ++j) row[j] = static_cast<std::uint32_t>(static_cast<std::int32_t>(from[j]));
        else
          for (std::int64_t j = 0; j < n; ++j) row[j] += static_cast<std::uint32_t>(static_cast<std::int32_t>(from[j]));
      }
      first += kExactTerms;
    } while (first < k);
  }
}

void requantize(const std::int32_t* sums, std::int64_t count, float scale, std::int32_t zero, bool is_signed,
                void* out) {
  round_to_any(
      sums, count, [scale](std::int64_t) { return scale; }, zero, is_signed, out);
}
void requantize(const std::int32_t* sums, std::int64_t count, const float* scales, std::int32_t zero, bool is_signed,
                void* out) {
  round_to_any(
      sums, count, [scales](std::int64_t i) { return scales[i]; }, zero, is_signed, out);
}

std::int32_t zero_point(const Tensor& t, std::int64_t at) {
  return t.dtype() == DType::i8 ? std::int32_t{t.data<std::int8_t>()[at]} : std::int32_t{t.data<std::uint8_t>()[at]};
}

}  // namespace troupe
