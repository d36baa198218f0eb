// f16 of the emulated GPU. Stands in for the toolkit's header of this name.
#pragma once

#include "tests/kernels/emulated_cuda/cuda_runtime.h"
#include <troupe/messages/dtype.hpp>

struct __half {
  std::uint16_t bits;
};
struct __half2 {
  __half x, y;
};

inline float __half2float(__half x) { return static_cast<float>(std::bit_cast<troupe::Half>(x)); }
// To nearest even. A GPU has one NaN for all.
inline __half __float2half_rn(float x) { return x != x ? __half{0x7fff} : std::bit_cast<__half>(troupe::Half(x)); }
inline __half2 __floats2half2_rn(float x, float y) { return {__float2half_rn(x), __float2half_rn(y)}; }
inline float2 __half22float2(__half2 x) { return {__half2float(x.x), __half2float(x.y)}; }
