// Packs of elements that are loaded and stored at once.
#pragma once

#include <cstdint>
#include <cstring>

#include <troupe/kernels/cuda/element_types.cuh>

namespace troupe::device {

using F16 = __half;
using BF16 = __nv_bfloat16;
using DataElements =
    Elements<float, double, F16, BF16, std::int8_t, std::uint8_t, std::int16_t, std::int32_t, std::int64_t, bool>;

// An unsigned type of kBytes bytes, loaded by one instruction.
template <int kBytes>
struct Word;
template <>
struct Word<1> {
  using type = std::uint8_t;
};
template <>
struct Word<2> {
  using type = std::uint16_t;
};
template <>
struct Word<4> {
  using type = std::uint32_t;
};
template <>
struct Word<8> {
  using type = uint2;
};
template <>
struct Word<16> {
  using type = uint4;
};

// kWidth neighbours in memory.
template <class T, int kWidth>
struct Pack {
  T values[kWidth];
};

// `from` and `to` must be aligned to the pack's size, which is at most 16 bytes.
template <int kWidth, class T>
__device__ Pack<T, kWidth> load_pack(const T* from) {
  using Raw = typename Word<static_cast<int>(sizeof(T)) * kWidth>::type;
  const Raw raw = *reinterpret_cast<const Raw*>(from);
  Pack<T, kWidth> pack;
  memcpy(&pack, &raw, sizeof raw);
  return pack;
}

// For an operand that does not move, all values are the element at `from`.
template <int kWidth, class T>
__device__ Pack<T, kWidth> load_operand(const T* from, bool moves) {
  if (moves) return load_pack<kWidth>(from);
  Pack<T, kWidth> pack;
  const T value = *from;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) pack.values[i] = value;
  return pack;
}

template <int kWidth, class T>
__device__ void store_pack(const Pack<T, kWidth>& pack, T* to) {
  using Raw = typename Word<static_cast<int>(sizeof(T)) * kWidth>::type;
  Raw raw;
  memcpy(&raw, &pack, sizeof raw);
  *reinterpret_cast<Raw*>(to) = raw;
}

}  // namespace troupe::device
