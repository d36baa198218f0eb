#include "troupe/devices/collective/reduce.hpp"

#include <bit>
#include <concepts>
#include <type_traits>

namespace troupe {
namespace {

// Types of the additions: f16 and bf16 are added as float, integers as unsigned, which wrap.
template <class T>
struct Wide {
  using type = T;
};
template <>
struct Wide<Half> {
  using type = float;
};
template <>
struct Wide<BFloat16> {
  using type = float;
};
template <std::integral T>
struct Wide<T> {
  using type = std::make_unsigned_t<T>;
};

// Same result as BFloat16(float), but compilers can vectorise it.
BFloat16 rounded_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t nearest = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40u;
  BFloat16 out;
  out.bits = static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : nearest);
  return out;
}

template <class T>
T narrowed(typename Wide<T>::type value) {
  if constexpr (std::is_same_v<T, BFloat16>)
    return rounded_bf16(value);
  else
    return static_cast<T>(value);
}

template <class T>
T divided(typename Wide<T>::type sum, std::uint32_t divisor) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<T>(sum) / static_cast<T>(divisor));
  else
    return narrowed<T>(sum / static_cast<typename Wide<T>::type>(divisor));
}

template <class T>
T greater_of(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return a > b ? a : b;
  } else {
    const auto x = static_cast<typename Wide<T>::type>(a), y = static_cast<typename Wide<T>::type>(b);
    return x > y || x != x ? a : b;
  }
}

template <class T>
void combine_as(Reduction reduction, const Tensor& partial, const Tensor& local, std::uint32_t divisor, Tensor& to) {
  using W = typename Wide<T>::type;
  const std::int64_t n = partial.num_elements();
  const T* a = partial.data<T>();
  const T* b = local.data<T>();
  T* out = to.mutable_data<T>();
  if (reduction == Reduction::max)
    for (std::int64_t i = 0; i < n; ++i) out[i] = greater_of<T>(a[i], b[i]);
  else if (reduction == Reduction::mean && divisor > 1)
    for (std::int64_t i = 0; i < n; ++i) out[i] = divided<T>(static_cast<W>(a[i]) + static_cast<W>(b[i]), divisor);
  else
    for (std::int64_t i = 0; i < n; ++i) out[i] = narrowed<T>(static_cast<W>(a[i]) + static_cast<W>(b[i]));
}

}  // namespace

bool can_reduce(DType dtype) { return is_floating(dtype) || dtype == DType::i32 || dtype == DType::i64; }

void combine(Reduction reduction, const Tensor& partial, const Tensor& local, std::uint32_t divisor, Tensor& out) {
  switch (partial.dtype()) {
    case DType::f32:
      return combine_as<float>(reduction, partial, local, divisor, out);
    case DType::f64:
      return combine_as<double>(reduction, partial, local, divisor, out);
    case DType::f16:
      return combine_as<Half>(reduction, partial, local, divisor, out);
    case DType::bf16:
      return combine_as<BFloat16>(reduction, partial, local, divisor, out);
    case DType::i32:
      return combine_as<std::int32_t>(reduction, partial, local, divisor, out);
    case DType::i64:
      return combine_as<std::int64_t>(reduction, partial, local, divisor, out);
    default:
      invalid_argument("cannot reduce tensors of {}", name(partial.dtype()));
  }
}

}  // namespace troupe
