// Transposing a matrix that stays in the cache, by squares in registers.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

namespace troupe {

// Elements per side of a square that is transposed in registers.
template <class E>
inline constexpr int kSquare = sizeof(E) == 1   ? 16
                               : sizeof(E) == 2 ? 16
                               : sizeof(E) == 4 ? 8
                                                : 4;

// Elements `first`, first + 1, ... of a and b in turns: as many as one of them has.
template <int first, class Vector, int... i>
Vector interleaved(Vector a, Vector b, std::integer_sequence<int, i...>) {
  constexpr int kSide = sizeof...(i);
  return __builtin_shufflevector(a, b, (first + (i % 2 == 0 ? i / 2 : kSide + i / 2))...);
}

// v[i] becomes the concatenation of the elements i of all; each round interleaves the first half of the vectors with
// the second.
template <class E>
void transpose_square(const E* source, std::int64_t source_stride, E* target, std::int64_t target_stride) {
  constexpr int kSide = kSquare<E>;
  constexpr std::make_integer_sequence<int, kSide> kElements;
  using Vector [[gnu::vector_size(kSide * sizeof(E))]] = E;
  Vector v[kSide];
  for (int i = 0; i < kSide; ++i) std::memcpy(&v[i], source + i * source_stride, sizeof(Vector));
  for (int round = 1; round < kSide; round *= 2) {
    Vector next[kSide];
    for (int i = 0; i < kSide / 2; ++i) {
      next[2 * i] = interleaved<0>(v[i], v[i + kSide / 2], kElements);
      next[2 * i + 1] = interleaved<kSide / 2>(v[i], v[i + kSide / 2], kElements);
    }
    std::memcpy(v, next, sizeof(v));
  }
  for (int i = 0; i < kSide; ++i) std::memcpy(target + i * target_stride, &v[i], sizeof(Vector));
}

// target[r * target_stride + c] = source[c * source_stride + r] for r below `rows`, c below `columns`. E: unsigned
// integers of the elements' size.
template <class E>
void transpose_tile(std::int64_t rows, std::int64_t columns, const E* source, std::int64_t source_stride, E* target,
                    std::int64_t target_stride) {
  constexpr std::int64_t kSide = kSquare<E>;
  std::int64_t row = 0;
  for (; row + kSide <= rows; row += kSide) {
    std::int64_t column = 0;
    for (; column + kSide <= columns; column += kSide)
      transpose_square(source + column * source_stride + row, source_stride, target + row * target_stride + column,
                       target_stride);
    for (std::int64_t r = row; r < row + kSide; ++r)
      for (std::int64_t c = column; c < columns; ++c)
        std::memcpy(target + r * target_stride + c, source + c * source_stride + r, sizeof(E));
  }
  for (; row < rows; ++row)
    for (std::int64_t c = 0; c < columns; ++c)
      std::memcpy(target + row * target_stride + c, source + c * source_stride + row, sizeof(E));
}

}  // namespace troupe
