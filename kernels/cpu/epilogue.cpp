#include "troupe/kernels/cpu/epilogue.hpp"

#include <algorithm>
#include <type_traits>

#include <troupe/kernels/common/elementwise_ops.hpp>
#include <troupe/kernels/cpu/ivdep.hpp>
#include <troupe/kernels/cpu/low_precision.hpp>
#include <troupe/kernels/cpu/vector_math.hpp>

namespace troupe {
namespace {

// Calls fn with the activation as a function of one element.
template <class Fn>
void with_function(FusedActivation activation, Fn fn) {
  switch (activation) {
    case FusedActivation::none:
      return fn([](auto x) { return x; });
    case FusedActivation::relu:
      return fn(ReluOp{});
    case FusedActivation::sigmoid:
      return fn(SigmoidOp<VectorMath>{});
    case FusedActivation::tanh:
      return fn(TanhOp<VectorMath>{});
  }
}

template <class T, class Fn>
void add_row(Fn f, const T* x, const T* bias, std::int64_t width, T* out) {
  TROUPE_IVDEP
  for (std::int64_t j = 0; j < width; ++j) out[j] = f(x[j] + bias[j]);
}

// Rounds after the sum and again after the activation.
template <class T, class Fn>
void add_narrow_row(Fn f, bool activates, const T* x, const T* bias, std::int64_t width, T* out) {
  constexpr std::int64_t kBlock = 256;
  float sum[kBlock], addend[kBlock];
  for (std::int64_t begin = 0; begin < width; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, width - begin);
    widen(x + begin, sum, n);
    widen(bias + begin, addend, n);
    for (std::int64_t j = 0; j < n; ++j) sum[j] += addend[j];
    narrow(sum, out + begin, n);
    if (!activates) continue;
    widen(out + begin, sum, n);
    for (std::int64_t j = 0; j < n; ++j) sum[j] = f(sum[j]);
    narrow(sum, out + begin, n);
  }
}

}  // namespace

template <class T>
void add_bias(FusedActivation activation, const T* x, const T* bias, std::int64_t rows, std::int64_t width,
              std::int64_t stride, T* out) {
  with_function(activation, [&](auto f) {
    for (std::int64_t i = 0; i < rows; ++i) {
      if constexpr (std::is_floating_point_v<T>)
        add_row(f, x + i * stride, bias, width, out + i * stride);
      else
        add_narrow_row(f, activation != FusedActivation::none, x + i * stride, bias, width, out + i * stride);
    }
  });
}

template void add_bias(FusedActivation, const float*, const float*, std::int64_t, std::int64_t, std::int64_t, float*);
template void add_bias(FusedActivation, const double*, const double*, std::int64_t, std::int64_t, std::int64_t,
                       double*);
template void add_bias(FusedActivation, const Half*, const Half*, std::int64_t, std::int64_t, std::int64_t, Half*);
template void add_bias(FusedActivation, const BFloat16*, const BFloat16*, std::int64_t, std::int64_t, std::int64_t,
                       BFloat16*);

}  // namespace troupe
