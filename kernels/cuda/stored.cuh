// Kernels that compute in float or double on elements of any floating dtype.
#pragma once

#include <cstdint>
#include <cstring>

#include <troupe/kernels/cuda/element_types.cuh>

namespace troupe::device {

inline constexpr float infinity_of(float) { return __builtin_huge_valf(); }
inline constexpr double infinity_of(double) { return __builtin_huge_val(); }

// How elements are stored: as T,
template <class T>
struct Plain {
  using Type = T;  // for arithmetic
  using Memory = T;

  template <int kCount>
  __device__ void load(const T* from, bool vectors, T (&values)[kCount]) const {
    device::load<kCount>(from, vectors, values);
  }
  template <int kCount>
  __device__ void store(T* to, bool vectors, const T (&values)[kCount]) const {
    device::store<kCount>(to, vectors, values);
  }
};
// or as f16 or bf16, chosen at run time: the conversion costs nothing next to memory, and kernels are half as many.
struct Narrow {
  using Type = float;
  using Memory = std::uint16_t;

  bool brain;  // bf16

  template <class To, class From>
  __device__ static To bits_of(From from) {
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
  }
  template <int kCount>
  __device__ void load(const std::uint16_t* from, bool vectors, float (&values)[kCount]) const {
    std::uint16_t raw[kCount];
    device::load<kCount>(from, vectors, raw);
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      values[i] = brain ? widen(bits_of<__nv_bfloat16>(raw[i])) : widen(bits_of<__half>(raw[i]));
  }
  template <int kCount>
  __device__ void store(std::uint16_t* to, bool vectors, const float (&values)[kCount]) const {
    std::uint16_t raw[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      raw[i] = brain ? bits_of<std::uint16_t>(narrow<__nv_bfloat16>(values[i]))
                     : bits_of<std::uint16_t>(narrow<__half>(values[i]));
    device::store<kCount>(to, vectors, raw);
  }
};

// One element.
template <class Stored>
__device__ inline typename Stored::Type load_one(const Stored& stored, const typename Stored::Memory* from) {
  typename Stored::Type value[1];
  stored.template load<1>(from, false, value);
  return value[0];
}
template <class Stored>
__device__ inline void store_one(const Stored& stored, typename Stored::Memory* to, typename Stored::Type value) {
  stored.template store<1>(to, false, {value});
}

// Calls fn(stored) for a floating dtype; cudaErrorInvalidValue for others.
template <class Fn>
cudaError_t with_stored(DType dtype, Fn fn) {
  switch (dtype) {
    case DType::f32:
      return fn(Plain<float>{});
    case DType::f64:
      return fn(Plain<double>{});
    case DType::f16:
    case DType::bf16:
      return fn(Narrow{dtype == DType::bf16});
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace troupe::device
