// Keys that order elements of any dtype as unsigned integers, and sorts of keys. NaN is greater than all numbers and
// equal to NaN; -0 equals 0.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include <troupe/messages/element_types.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

template <class T>
using KeyOf = std::conditional_t<sizeof(T) <= 4, std::uint32_t, std::uint64_t>;

template <class T>
KeyOf<T> order_key(T x) {
  using K = KeyOf<T>;
  constexpr int kSign = 8 * sizeof(K) - 1;
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return order_key(static_cast<float>(x));
  } else if constexpr (std::is_floating_point_v<T>) {
    const K bits = std::bit_cast<K>(x + T{0});  // -0 becomes 0
    const K key = bits ^ (static_cast<K>(static_cast<std::make_signed_t<K>>(bits) >> kSign) | K{1} << kSign);
    return x != x ? ~K{0} : key;
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<K>(static_cast<std::make_signed_t<K>>(x)) ^ K { 1 } << kSign;
  } else {
    return static_cast<K>(x);
  }
}

// The element of a key: not the sign of 0 and the payload of NaN.
template <class T>
T element_of(KeyOf<T> key) {
  using K = KeyOf<T>;
  constexpr int kSign = 8 * sizeof(K) - 1;
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return T(element_of<float>(key));
  } else if constexpr (std::is_floating_point_v<T>) {
    return std::bit_cast<T>(key >> kSign ? key ^ K{1} << kSign : ~key);
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<T>(key ^ K{1} << kSign);
  } else {
    return static_cast<T>(key);
  }
}

// A 64-bit key and the number of its element.
struct IndexedKey {
  std::uint64_t key, index;
  bool operator<(const IndexedKey& other) const { return key < other.key || (key == other.key && index < other.index); }
};

// A 32-bit key and the number of its element, in one word of that order.
inline std::uint64_t indexed(std::uint32_t key, std::int64_t index) {
  return std::uint64_t{key} << 32 | static_cast<std::uint32_t>(index);
}
inline IndexedKey indexed(std::uint64_t key, std::int64_t index) { return {key, static_cast<std::uint64_t>(index)}; }
inline std::int64_t index_of(std::uint64_t word) { return static_cast<std::uint32_t>(word); }
inline std::int64_t index_of(const IndexedKey& word) { return static_cast<std::int64_t>(word.index); }

// Key K with the number of its element.
template <class K>
using Indexed = decltype(indexed(K{}, 0));

// Sort `count` words in ascending order (of words that are indexed: by their keys, then indices, which must be
// ascending in the input). `room` has as many. The result is in the memory returned, `words` or `room`.
std::uint32_t* sort_words(std::uint32_t* words, std::uint32_t* room, std::int64_t count);
std::uint64_t* sort_words(std::uint64_t* words, std::uint64_t* room, std::int64_t count);
std::uint64_t* sort_indexed(std::uint64_t* words, std::uint64_t* room, std::int64_t count);
IndexedKey* sort_indexed(IndexedKey* words, IndexedKey* room, std::int64_t count);

// keys[i] = order_key(x[first + i]) ^ flip, i < count; flip is 0, or all ones for a descending order.
void order_keys(const Tensor& x, std::int64_t first, std::int64_t count, std::uint32_t flip, std::uint32_t* keys);
void order_keys(const Tensor& x, std::int64_t first, std::int64_t count, std::uint64_t flip, std::uint64_t* keys);
// Whether elements of the dtype have keys of 64 bits.
inline bool has_wide_keys(DType dtype) { return size_of(dtype) == 8; }

// Calls fn.template operator()<K>() for the type of a dtype's keys.
template <class Fn>
auto with_keys(DType dtype, Fn fn) {
  return has_wide_keys(dtype) ? fn.template operator()<std::uint64_t>() : fn.template operator()<std::uint32_t>();
}

// Throws invalid_argument for a row too long to be indexed with 32 bits.
void check_row_length(std::string_view op, std::int64_t count);

}  // namespace troupe
