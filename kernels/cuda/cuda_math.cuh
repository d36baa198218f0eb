// CUDA's elementary functions: the Math of kernels/common/elementwise_ops.hpp.
#pragma once

#include <cuda_runtime.h>

#include <troupe/kernels/common/elementwise_ops.hpp>
#include <troupe/kernels/common/rare_ops.hpp>

namespace troupe::device {

struct CudaMath {
  TROUPE_HOST_DEVICE static float exp(float x) { return expf(x); }
  TROUPE_HOST_DEVICE static double exp(double x) { return ::exp(x); }
  TROUPE_HOST_DEVICE static float log(float x) { return logf(x); }
  TROUPE_HOST_DEVICE static double log(double x) { return ::log(x); }
  TROUPE_HOST_DEVICE static float log1p(float x) { return log1pf(x); }
  TROUPE_HOST_DEVICE static double log1p(double x) { return ::log1p(x); }
  TROUPE_HOST_DEVICE static float rsqrt(float x) { return rsqrtf(x); }
  TROUPE_HOST_DEVICE static double rsqrt(double x) { return ::rsqrt(x); }
  TROUPE_HOST_DEVICE static float tanh(float x) { return tanhf(x); }
  TROUPE_HOST_DEVICE static double tanh(double x) { return ::tanh(x); }
  TROUPE_HOST_DEVICE static float erf(float x) { return erff(x); }
  TROUPE_HOST_DEVICE static double erf(double x) { return ::erf(x); }

  // max(x, 0) + log1p(e), e = exp(-|x|).
  template <class T>
  TROUPE_HOST_DEVICE static T softplus(T x) {
    return (x < T{0} ? T{0} : x) + log1p(exp(-AbsOp{}(x)));
  }

  // Not inlined: large code.
  __noinline__ TROUPE_HOST_DEVICE static float pow(float a, float b) { return powf(a, b); }
  __noinline__ TROUPE_HOST_DEVICE static double pow(double a, double b) { return ::pow(a, b); }
#define TROUPE_RARE(NAME)                                                           \
  __noinline__ TROUPE_HOST_DEVICE static float NAME(float x) { return NAME##f(x); } \
  __noinline__ TROUPE_HOST_DEVICE static double NAME(double x) { return ::NAME(x); }
  TROUPE_RARE(sin)
  TROUPE_RARE(cos)
  TROUPE_RARE(tan)
  TROUPE_RARE(asin)
  TROUPE_RARE(acos)
  TROUPE_RARE(atan)
  TROUPE_RARE(sinh)
  TROUPE_RARE(cosh)
  TROUPE_RARE(asinh)
  TROUPE_RARE(acosh)
  TROUPE_RARE(atanh)
  TROUPE_RARE(expm1)
  TROUPE_RARE(erfc)
#undef TROUPE_RARE
  __noinline__ TROUPE_HOST_DEVICE static double lgamma(double x) { return ::lgamma(x); }
  __noinline__ TROUPE_HOST_DEVICE static float lgamma(float x) {  // lgammaf() has more than 4 ulp
    return static_cast<float>(lgamma(static_cast<double>(x)));
  }
  __noinline__ TROUPE_HOST_DEVICE static float digamma(float x) {
    return static_cast<float>(digamma_of(static_cast<double>(x)));
  }
  __noinline__ TROUPE_HOST_DEVICE static double digamma(double x) { return digamma_of(x); }
};

}  // namespace troupe::device
