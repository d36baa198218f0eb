// Converts arrays of f16 and bf16 to float and back, rounding to nearest even, many elements at once with the bits of
// Half(float) and BFloat16(float).
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#ifdef __F16C__
#include <immintrin.h>
#endif

#include <troupe/devices/device.hpp>
#include <troupe/messages/dtype.hpp>

namespace troupe {

inline void widen(const BFloat16* from, float* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = std::bit_cast<float>(static_cast<std::uint32_t>(from[i].bits) << 16);
}

inline void narrow(const float* from, BFloat16* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto raw = std::bit_cast<std::uint32_t>(from[i]);
    const std::uint32_t rounded = (raw + 0x7fffu + ((raw >> 16) & 1u)) >> 16;
    to[i].bits = static_cast<std::uint16_t>((raw & 0x7fffffffu) > 0x7f800000u ? (raw >> 16) | 0x40u : rounded);
  }
}

inline void widen(const Half* from, float* to, std::int64_t count) {
  std::int64_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  for (; i < count; ++i) to[i] = _cvtsh_ss(from[i].bits);  // also makes a signalling NaN quiet
#else
  for (; i < count; ++i) to[i] = static_cast<float>(from[i]);
#endif
}

inline void narrow(const float* from, Half* to, std::int64_t count) {
  std::int64_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= count; i += 8) {
    const __m128i rounded = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), rounded);
    for (std::int64_t j = i; j < i + 8; ++j)  // the instruction keeps a NaN's payload, Half() does not
      if ((to[j].bits & 0x7fffu) > 0x7c00u) to[j].bits = static_cast<std::uint16_t>((to[j].bits & 0x8000u) | 0x7e00u);
  }
#endif
  for (; i < count; ++i) to[i] = Half(from[i]);
}

// The same, on all threads.
template <class From, class To>
void convert_elements(Parallelism& parallelism, const From* from, To* to, std::int64_t count) {
  constexpr std::int64_t kPartElements = std::int64_t{1} << 15;
  parallelism.parallel_for(count, kPartElements, [=](std::int64_t begin, std::int64_t end) {
    if constexpr (std::is_same_v<From, float>)
      narrow(from + begin, to + begin, end - begin);
    else
      widen(from + begin, to + begin, end - begin);
  });
}

}  // namespace troupe
