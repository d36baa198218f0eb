#include "troupe/devices/storage/crc32c.hpp"

#include <isa-l/crc.h>

#include <algorithm>
#include <bit>
#include <cstring>
#ifdef __SSE4_2__
#include <immintrin.h>
#endif

namespace troupe {
namespace {

#ifdef __SSE4_2__
template <class Word>
Word word_at(const std::byte* bytes) {
  Word word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

// The instruction's state after some bytes; 8 in 3 cycles.
std::uint32_t by_words(std::span<const std::byte> bytes, std::uint32_t state) {
  std::uint64_t wide = state;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) wide = _mm_crc32_u64(wide, word_at<std::uint64_t>(bytes.data()));
  state = static_cast<std::uint32_t>(wide);
  if (bytes.size() >= 4) {
    state = _mm_crc32_u32(state, word_at<std::uint32_t>(bytes.data()));
    bytes = bytes.subspan(4);
  }
  for (const std::byte byte : bytes) state = _mm_crc32_u8(state, static_cast<unsigned char>(byte));
  return state;
}
#endif

#if defined(__VPCLMULQDQ__) && defined(__AVX512BW__)
// A block of 64 bytes is four polynomials; a multiplication moves each to where the bytes lie that come later, modulo
// the checksum's polynomial. V. Gopal and others, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
// Instruction", 2009. The library does the same, but takes 10 ns to begin and 10 ns for the last bytes of a record.
constexpr std::size_t kBlock = 64, kAtOnce = 4 * kBlock;
constexpr std::size_t kLeastFolded = kBlock, kMostFolded = 16 << 10;

// x^n modulo the polynomial, its bits in reverse order, times x: what the product of two reversed numbers lacks.
constexpr long long power_of_x(int n) {
  std::uint32_t power = 0x80000000u;
  for (int i = 0; i < n; ++i) power = (power >> 1) ^ ((power & 1) != 0 ? 0x82f63b78u : 0);
  return static_cast<long long>(std::uint64_t{power} << 1);
}

template <int kBytes>
__m512i moved_by() {
  constexpr long long kHigh = power_of_x(8 * kBytes - 32), kLow = power_of_x(8 * kBytes + 32);
  return _mm512_set_epi64(kHigh, kLow, kHigh, kLow, kHigh, kLow, kHigh, kLow);
}

__m512i fold(__m512i block, __m512i by, __m512i onto) {
  constexpr int kXor = 0x96;
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(block, by, 0x00), _mm512_clmulepi64_epi128(block, by, 0x11),
                                   onto, kXor);
}

// The state that the last block leaves behind, from 0.
std::uint32_t state_of(__m512i block) {
  const __m512i by = _mm512_set_epi64(0, 0, power_of_x(128 - 32), power_of_x(128 + 32), power_of_x(256 - 32),
                                      power_of_x(256 + 32), power_of_x(384 - 32), power_of_x(384 + 32));
  const __m512i last = _mm512_maskz_mov_epi64(0xc0, block);
  const __m512i lanes = fold(block, by, last);
  const __m256i halves = _mm256_xor_si256(_mm512_castsi512_si256(lanes), _mm512_extracti64x4_epi64(lanes, 1));
  const __m128i sum = _mm_xor_si128(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
  const auto low = static_cast<std::uint64_t>(_mm_cvtsi128_si64(sum));
  const auto high = static_cast<std::uint64_t>(_mm_extract_epi64(sum, 1));
  return static_cast<std::uint32_t>(_mm_crc32_u64(_mm_crc32_u64(0, low), high));
}

// At least a block.
std::uint32_t by_folding(std::span<const std::byte> bytes, std::uint32_t state) {
  if (const std::size_t over = bytes.size() % kBlock; over > 0 && over < sizeof state) {
    state = by_words(bytes.first(over), state);
    bytes = bytes.subspan(over);
  }
  // Zeros before a message do not count: the first block is filled up with them.
  const std::size_t zeros = (kBlock - bytes.size() % kBlock) % kBlock;
  const std::byte* at = bytes.data() - zeros;
  const __m512i begin = _mm512_maskz_mov_epi8(
      0xfull << zeros, _mm512_set1_epi32(static_cast<int>(std::rotl(state, static_cast<int>(8 * (zeros % 4))))));
  __m512i block = _mm512_xor_si512(begin, _mm512_maskz_loadu_epi8(~0ull << zeros, at));
  std::size_t left = zeros + bytes.size() - kBlock;
  at += kBlock;
  const auto load = [&](std::size_t i) { return _mm512_loadu_si512(at + i * kBlock); };
  const __m512i by_one = moved_by<kBlock>();
  if (left >= kAtOnce) {
    const __m512i by_four = moved_by<kAtOnce>();
    __m512i second = load(0), third = load(1), fourth = load(2);
    for (at += 3 * kBlock, left -= 3 * kBlock; left >= kAtOnce; at += kAtOnce, left -= kAtOnce) {
      block = fold(block, by_four, load(0));
      second = fold(second, by_four, load(1));
      third = fold(third, by_four, load(2));
      fourth = fold(fourth, by_four, load(3));
    }
    block = fold(fold(fold(block, by_one, second), by_one, third), by_one, fourth);
  }
  for (; left > 0; at += kBlock, left -= kBlock) block = fold(block, by_one, load(0));
  return state_of(block);
}
#endif

std::uint32_t by_library(std::span<const std::byte> bytes, std::uint32_t state) {
  constexpr std::size_t kMost = 1u << 30;  // it counts in int
  while (!bytes.empty()) {
    const std::size_t n = std::min(bytes.size(), kMost);
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));  // only read
    state = crc32_iscsi(data, static_cast<int>(n), state);
    bytes = bytes.subspan(n);
  }
  return state;
}

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc) {
#ifdef __SSE4_2__
  constexpr std::size_t kMostByWords = 63;
  if (bytes.size() <= kMostByWords) return ~by_words(bytes, ~crc);
#endif
#if defined(__VPCLMULQDQ__) && defined(__AVX512BW__)
  if (bytes.size() >= kLeastFolded && bytes.size() <= kMostFolded) return ~by_folding(bytes, ~crc);
#endif
  return ~by_library(bytes, ~crc);
}

}  // namespace troupe
