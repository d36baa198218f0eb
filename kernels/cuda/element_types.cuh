// Elements in device code: CUDA's f16 and bf16 types, the types used for arithmetic on them, and vectors of 16 bytes.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include <troupe/messages/dtype.hpp>

namespace troupe::device {

template <class T>
inline constexpr bool kNarrow = std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>;
template <class T>
using Compute = std::conditional_t<kNarrow<T>, float, T>;

template <class T>
__device__ inline Compute<T> widen(T x) {
  if constexpr (std::is_same_v<T, __half>)
    return __half2float(x);
  else if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __bfloat162float(x);
  else
    return x;
}
// Rounds to nearest even.
template <class T>
__device__ inline T narrow(Compute<T> x) {
  if constexpr (std::is_same_v<T, __half>)
    return __float2half_rn(x);
  else if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __float2bfloat16_rn(x);
  else
    return x;
}

// Sums of integers wrap; others are rounded to T.
template <class T>
__device__ T rounded_sum(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
  else
    return narrow<T>(widen(a) + widen(b));
}

// Elements per 16-byte load.
template <class T>
inline constexpr int kVectorOf = 16 / static_cast<int>(sizeof(T));

// True if all pointers are aligned for vector loads and stores.
template <class... Ts>
bool aligned(const Ts*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

// Four elements of 16 bits, as many as an f32 vector has.
template <class T, int kCount>
inline constexpr bool kHalfVector = sizeof(T) == 2 && kCount == 4;

// Loads kCount neighbours; as one vector if they fill 16 bytes (or 8) and `vectors` says the address is a multiple of
// that.
template <int kCount, class T>
__device__ inline void load(const T* from, bool vectors, T (&values)[kCount]) {
  if constexpr (kHalfVector<T, kCount>) {
    if (vectors) {
      const uint2 all = *reinterpret_cast<const uint2*>(from);
      memcpy(values, &all, 8);
      return;
    }
  }
  if constexpr (kCount * sizeof(T) == 16) {
    if (vectors) {
      const uint4 all = *reinterpret_cast<const uint4*>(from);
      memcpy(values, &all, 16);
      return;
    }
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) values[i] = from[i];
}
template <int kCount, class T>
__device__ inline void store(T* to, bool vectors, const T (&values)[kCount]) {
  if constexpr (kHalfVector<T, kCount>) {
    if (vectors) {
      uint2 all;
      memcpy(&all, values, 8);
      *reinterpret_cast<uint2*>(to) = all;
      return;
    }
  }
  if constexpr (kCount * sizeof(T) == 16) {
    if (vectors) {
      uint4 all;
      memcpy(&all, values, 16);
#ifdef __CUDA_ARCH__
      // Explicit assembly: nvcc 13.0 splits most copies of an unrolled store beside the branch below into four stores.
      asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "r"(all.x),
                   "r"(all.y), "r"(all.z), "r"(all.w)
                   : "memory");
#else
      *reinterpret_cast<uint4*>(to) = all;
#endif
      return;
    }
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) to[i] = values[i];
}

// Value of the lane whose number differs in the bits of `mask`. All lanes of the warp must call it.
template <class T>
__device__ inline T shuffle_xor(T value, int mask) {
  if constexpr (std::is_integral_v<T> && sizeof(T) < 4)
    return static_cast<T>(__shfl_xor_sync(0xffffffffu, static_cast<int>(value), mask));
  else
    return __shfl_xor_sync(0xffffffffu, value, mask);
}

// Calls fn.template operator()<T>() for the element type of `dtype`; cudaErrorInvalidValue if it is not in the list.
template <class... Ts>
struct Elements {};
template <class T>
inline constexpr DType kDTypeOf = std::is_same_v<T, __half>          ? DType::f16
                                  : std::is_same_v<T, __nv_bfloat16> ? DType::bf16
                                                                     : dtype_of<T>;
using FloatElements = Elements<float, double, __half, __nv_bfloat16>;
using RealElements =
    Elements<float, double, __half, __nv_bfloat16, std::int8_t, std::uint8_t, std::int16_t, std::int32_t, std::int64_t>;

template <class... Ts, class Fn>
cudaError_t dispatch(Elements<Ts...>, DType dtype, Fn&& fn) {
  cudaError_t status = cudaErrorInvalidValue;
  static_cast<void>(((dtype == kDTypeOf<Ts> ? (status = fn.template operator()<Ts>(), true) : false) || ...));
  return status;
}

// Calls fn.template operator()<T>() with an unsigned T of so many bytes: 1, 2, 4 or 8.
template <class Fn>
cudaError_t with_sizes(std::size_t bytes, Fn fn) {
  switch (bytes) {
    case 1:
      return fn.template operator()<std::uint8_t>();
    case 2:
      return fn.template operator()<std::uint16_t>();
    case 4:
      return fn.template operator()<std::uint32_t>();
    case 8:
      return fn.template operator()<std::uint64_t>();
    default:
      return cudaErrorInvalidValue;
  }
}
}  // namespace troupe::device
