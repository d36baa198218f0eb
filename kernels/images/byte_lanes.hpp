// Elements of a row as one vector, bytes or floats, as floats: compilers widen bytes from wider vectors, piece by
// piece, which takes longer than the arithmetic. Without AVX-512 they do it as they can.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace troupe::images {

// As many as the registers that the program is compiled for have.
#if defined(__AVX512F__)
constexpr std::int64_t kLanes = 16;
#elif defined(__AVX__)
constexpr std::int64_t kLanes = 8;
#else
constexpr std::int64_t kLanes = 4;
#endif
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));

inline Lanes load_lanes(const float* from) {
  Lanes lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}
inline Lanes load_lanes(const std::uint8_t* from) {
#ifdef __AVX512F__
  __m128i bytes;
  std::memcpy(&bytes, from, sizeof bytes);
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
#else
  Lanes lanes;
  for (int i = 0; i < kLanes; ++i) lanes[i] = static_cast<float>(from[i]);
  return lanes;
#endif
}

inline void store_lanes(const Lanes& lanes, float* to) { std::memcpy(to, &lanes, sizeof lanes); }
// Of values from 0 to below 256; fractions are left out.
inline void store_lanes(const Lanes& lanes, std::uint8_t* to) {
#ifdef __AVX512F__
  const __m128i bytes = _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(lanes));
  std::memcpy(to, &bytes, sizeof bytes);
#else
  for (int i = 0; i < kLanes; ++i) to[i] = static_cast<std::uint8_t>(static_cast<int>(lanes[i]));
#endif
}

// Past the cache where `to` is aligned to whole vectors. Call finish_streams() before another thread may read.
inline void stream_lanes(const Lanes& lanes, float* to) {
#ifdef __AVX512F__
  if (reinterpret_cast<std::uintptr_t>(to) % sizeof lanes == 0) return _mm512_stream_ps(to, lanes);
#endif
  store_lanes(lanes, to);
}
inline void finish_streams() {
#ifdef __AVX512F__
  _mm_sfence();
#endif
}

// write(i) for vectors from 0 on; the last ones end at `count`, so they may overlap: they must not depend on what is
// written. Fewer than kLanes elements: one(i) for each.
template <class Write, class One>
void for_lanes(std::int64_t count, const Write& write, const One& one) {
  if (count < kLanes) {
    for (std::int64_t i = 0; i < count; ++i) one(i);
    return;
  }
  for (std::int64_t i = 0; i < count; i += kLanes) write(std::min(i, count - kLanes));
}

}  // namespace troupe::images
