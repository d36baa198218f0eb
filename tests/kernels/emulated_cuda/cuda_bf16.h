// bf16 of the emulated GPU. Stands in for the toolkit's header of this name.
#pragma once

#include "tests/kernels/emulated_cuda/cuda_runtime.h"
#include <troupe/messages/dtype.hpp>

struct __nv_bfloat16 {
  std::uint16_t bits;
};
struct __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

inline float __bfloat162float(__nv_bfloat16 x) { return static_cast<float>(std::bit_cast<troupe::BFloat16>(x)); }
// To nearest even. A GPU has one NaN for all.
inline __nv_bfloat16 __float2bfloat16_rn(float x) {
  return x != x ? __nv_bfloat16{0x7fff} : std::bit_cast<__nv_bfloat16>(troupe::BFloat16(x));
}
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}
inline float2 __bfloat1622float2(__nv_bfloat162 x) { return {__bfloat162float(x.x), __bfloat162float(x.y)}; }
