#include "troupe/kernels/cpu/sort_keys.hpp"

#include <array>

namespace troupe {
namespace {

constexpr int kDigitBits = 8;
constexpr std::size_t kDigits = 1u << kDigitBits;

template <class Word>
std::size_t digit_of(const Word& word, int shift) {
  if constexpr (std::is_same_v<Word, IndexedKey>)
    return (word.key >> shift) & (kDigits - 1);
  else
    return (word >> shift) & (kDigits - 1);
}

// Least significant digit first, by the bits [from, from + kDigitBits * passes); digits that all words share are
// skipped.
template <int passes, class Word>
Word* radix_sort(Word* words, Word* room, std::int64_t count, int from) {
  std::array<std::array<std::uint32_t, kDigits>, passes> counts{};
  for (std::int64_t i = 0; i < count; ++i)
    for (int p = 0; p < passes; ++p) ++counts[static_cast<std::size_t>(p)][digit_of(words[i], from + p * kDigitBits)];
  for (int p = 0; p < passes; ++p) {
    const int shift = from + p * kDigitBits;
    auto& starts = counts[static_cast<std::size_t>(p)];
    if (starts[digit_of(words[0], shift)] == static_cast<std::uint32_t>(count)) continue;
    std::uint32_t sum = 0;
    for (std::uint32_t& start : starts) sum += std::exchange(start, sum);
    for (std::int64_t i = 0; i < count; ++i) room[starts[digit_of(words[i], shift)]++] = words[i];
    std::swap(words, room);
  }
  return words;
}

// Below these lengths, comparisons are faster than a pass over all digits.
constexpr std::int64_t kShortRow = 400, kShortWideRow = 800;

template <int passes, class Word>
Word* sort_any(Word* words, Word* room, std::int64_t count, int from) {
  if (count > (passes > 4 ? kShortWideRow : kShortRow)) return radix_sort<passes>(words, room, count, from);
  std::sort(words, words + count);
  return words;
}

template <class T, class K>
void keys_of(const T* x, std::int64_t count, K flip, K* keys) {
  for (std::int64_t i = 0; i < count; ++i) keys[i] = order_key(x[i]) ^ flip;
}

}  // namespace

std::uint32_t* sort_words(std::uint32_t* words, std::uint32_t* room, std::int64_t count) {
  return sort_any<4>(words, room, count, 0);
}
std::uint64_t* sort_words(std::uint64_t* words, std::uint64_t* room, std::int64_t count) {
  return sort_any<8>(words, room, count, 0);
}
std::uint64_t* sort_indexed(std::uint64_t* words, std::uint64_t* room, std::int64_t count) {
  return sort_any<4>(words, room, count, 32);
}
IndexedKey* sort_indexed(IndexedKey* words, IndexedKey* room, std::int64_t count) {
  return sort_any<8>(words, room, count, 0);
}

void order_keys(const Tensor& x, std::int64_t first, std::int64_t count, std::uint32_t flip, std::uint32_t* keys) {
  using Narrow = Types<float, Half, BFloat16, std::int8_t, std::int16_t, std::int32_t, std::uint8_t, std::uint16_t,
                       std::uint32_t, bool>;
  dispatch(Narrow{}, x.dtype(), [&]<class T>() { keys_of(x.data<T>() + first, count, flip, keys); });
}
void order_keys(const Tensor& x, std::int64_t first, std::int64_t count, std::uint64_t flip, std::uint64_t* keys) {
  dispatch(Types<double, std::int64_t, std::uint64_t>{}, x.dtype(),
           [&]<class T>() { keys_of(x.data<T>() + first, count, flip, keys); });
}

void check_row_length(std::string_view op, std::int64_t count) {
  if (count >= std::int64_t{1} << 32) invalid_argument("{}: {} elements in a row are too many", op, count);
}

}  // namespace troupe
